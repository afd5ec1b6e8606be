"""The gateway's own rule, as the simulated gateway uses it."""

from collections.abc import Sequence
from random import Random
from time import perf_counter

from bench.routing.traffic import Request
from bench.routing.worker import Job, Worker
from gateway.routing import Answered, Ask, Prefix, Report, Route, Router, block_ends
from gateway.types import WorkerId

_BITS = 2**64 - 1
_MOST_LOAD = 1.2
"""The default of `gateway.routing.most_load`."""


class ExpectedTime:
    """The gateway's rule `expected_time`.

    Attributes:
        decide_seconds: How long each choice took.
        expected_seconds, seen_seconds: Sums over the requests that ended.
    """

    def __init__(self, fleet: Sequence[Worker], random: Random) -> None:
        self._router = Router(most_load=_MOST_LOAD)
        self._names = [WorkerId(f"10.0.{at >> 8}.{at & 255}:8000") for at in range(len(fleet))]
        self._numbers = {name: at for at, name in enumerate(self._names)}
        self._routes: dict[Job, Route] = {}
        self._chosen: Route | None = None
        self.decide_seconds: list[float] = []
        self.expected_seconds = self.seen_seconds = 0.0
        for name in self._names:
            self._router.join(name)
            self._router.set_up(name, True)

    def choose(self, request: Request, up: Sequence[int], now: float) -> int:
        """By the router."""
        ask = Ask(str(request.tenant), prefix_of(request))
        able = {self._names[worker] for worker in up}
        begun = perf_counter()
        self._chosen = self._router.choose(ask, able.__contains__)
        self.decide_seconds.append(perf_counter() - begun)
        assert self._chosen is not None
        return self._numbers[self._chosen.worker]

    def began(self, job: Job, worker: int, now: float) -> None:
        """Tell the router."""
        assert self._chosen is not None
        self._routes[job] = self._chosen
        self._router.begin(self._chosen, now)

    def first(self, job: Job, now: float) -> None:
        """Tell the router."""
        self._router.first_token(self._routes[job], now)

    def ended(self, job: Job, worker: int, now: float, *, lost: bool) -> None:
        """Tell the router what usage says."""
        route, request = self._routes.pop(job), job.request
        answered = Answered(
            request.prompt_tokens,
            job.cached_tokens,
            request.answer_tokens,
            round(request.answer_tokens - job.steps),
        )
        self._router.end(route, now, None if lost else answered)
        if not lost:
            self.expected_seconds += route.expected_seconds
            self.seen_seconds += now - route.sent

    def set_up(self, worker: int, up: bool, now: float) -> None:
        """Tell the router."""
        self._router.set_up(self._names[worker], up)

    def report(self, worker: int, state: Worker) -> None:
        """Tell the router."""
        report = Report(state.present, state.model.cache_tokens)
        self._router.report(self._names[worker], report)


def prefix_of(request: Request) -> Prefix:
    """What `hash_prefix` would make of the request's text."""
    length = int(request.prompt_tokens * request.bytes_per_token)
    shared = request.system_tokens * request.bytes_per_token
    ends = block_ends(length)
    hashes = tuple(
        hash((request.system if end <= shared else request.conversation, end)) & _BITS
        for end in ends
    )
    key = hash((request.conversation, 0, 0)) & _BITS
    return Prefix(hashes, tuple(ends), length, key, continues=request.turn > 0)
