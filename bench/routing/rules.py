"""The rules that compete. Each replica of the gateway has its own instance."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

from bench.routing.traffic import Request
from bench.routing.worker import Job, Worker


class Rule(Protocol):
    """Chooses a worker for each request, and is told what a gateway can know."""

    def choose(self, request: Request, up: Sequence[int], now: float) -> int:
        """The worker of a request, one of `up`."""

    def began(self, job: Job, worker: int, now: float) -> None:
        """The request was sent, right after `choose`."""

    def first(self, job: Job, now: float) -> None:
        """Its first token came."""

    def ended(self, job: Job, worker: int, now: float, *, lost: bool) -> None:
        """It ended, or was lost with its worker."""

    def set_up(self, worker: int, up: bool, now: float) -> None:
        """A worker went down or came up."""

    def report(self, worker: int, state: Worker) -> None:
        """A worker's metrics were read."""


class _Unaware:
    """A rule that learns nothing."""

    def began(self, job: Job, worker: int, now: float) -> None:
        pass

    def first(self, job: Job, now: float) -> None:
        pass

    def ended(self, job: Job, worker: int, now: float, *, lost: bool) -> None:
        pass

    def set_up(self, worker: int, up: bool, now: float) -> None:
        pass

    def report(self, worker: int, state: Worker) -> None:
        pass


class RoundRobin(_Unaware):
    """One after the other."""

    def __init__(self, fleet: Sequence[Worker], random: Random) -> None:
        self._turn = random.randrange(len(fleet))

    def choose(self, request: Request, up: Sequence[int], now: float) -> int:
        """The next one."""
        self._turn += 1
        return up[self._turn % len(up)]


class Drawn(_Unaware):
    """Any, with equal probability."""

    def __init__(self, fleet: Sequence[Worker], random: Random) -> None:
        self._random = random

    def choose(self, request: Request, up: Sequence[int], now: float) -> int:
        """A random one."""
        return self._random.choice(up)


class LeastLoaded(_Unaware):
    """The less loaded of two drawn at random: the gateway's rule `least_loaded`.

    The load is the number of requests that this replica has there. vllm-router's `power_of_two` is
    the same.
    """

    def __init__(self, fleet: Sequence[Worker], random: Random) -> None:
        self._random = random
        self.load = [0] * len(fleet)

    def choose(self, request: Request, up: Sequence[int], now: float) -> int:
        """The less loaded of two."""
        first, second = self._random.sample(up, 2) if len(up) > 1 else (up[0], up[0])
        return second if self.load[second] < self.load[first] else first

    def began(self, job: Job, worker: int, now: float) -> None:
        """Count it."""
        self.load[worker] += 1

    def ended(self, job: Job, worker: int, now: float, *, lost: bool) -> None:
        """Count it."""
        self.load[worker] -= 1


class CacheAware(LeastLoaded):
    """vllm-router's `cache_aware`, written from its documentation, with its defaults.

    The worker whose earlier prompts share most with this one, if that is more than a threshold;
    else the one with the fewest characters in its tree. If loads differ too much, the least loaded.
    Source: https://docs.gpustack.ai/gpustack-operator/main/docs/modules/model-deployment/routing/
    """

    _THRESHOLD = 0.3
    _ABSOLUTE = 64
    _RELATIVE = 1.5
    _MOST_TOKENS = 2**24
    """2**26 characters."""

    def __init__(self, fleet: Sequence[Worker], random: Random) -> None:
        super().__init__(fleet, random)
        self._trees: list[OrderedDict[int, int]] = [OrderedDict() for _ in fleet]
        self._sizes = [0] * len(fleet)
        self._holders: defaultdict[int, set[int]] = defaultdict(set)

    def choose(self, request: Request, up: Sequence[int], now: float) -> int:
        """By cache, while loads are balanced."""
        loads = [self.load[worker] for worker in up]
        most, least = max(loads), min(loads)
        if most - least > self._ABSOLUTE and most > self._RELATIVE * least:
            return up[loads.index(least)]
        able = set(up)
        holders = self._holders[request.conversation] & able or self._holders[request.system] & able
        best = max(holders, key=lambda worker: self._match(worker, request), default=None)
        if best is not None:
            match = self._match(best, request)
            if match > self._THRESHOLD * request.prompt_tokens:
                return best
        return min(up, key=self._sizes.__getitem__)

    def began(self, job: Job, worker: int, now: float) -> None:
        """The worker's tree has the prompt now."""
        super().began(job, worker, now)
        request, tree = job.request, self._trees[worker]
        own_tokens = request.prompt_tokens - request.system_tokens
        for node, size in (
            (request.system, request.system_tokens),
            (request.conversation, own_tokens),
        ):
            self._sizes[worker] += max(0, size - tree.get(node, 0))
            tree[node] = max(size, tree.get(node, 0))
            tree.move_to_end(node)
            self._holders[node].add(worker)
        while self._sizes[worker] > self._MOST_TOKENS:
            node, size = tree.popitem(last=False)
            self._sizes[worker] -= size
            self._holders[node].discard(worker)

    def set_up(self, worker: int, up: bool, now: float) -> None:
        """A worker that is down has no tree."""
        if not up:
            for node in self._trees[worker]:
                self._holders[node].discard(worker)
            self._trees[worker].clear()
            self._sizes[worker] = 0

    def _match(self, worker: int, request: Request) -> int:
        tree = self._trees[worker]
        held = tree.get(request.system, 0) + tree.get(request.conversation, 0)
        return min(request.prompt_tokens, held)


class Oracle(_Unaware):
    """Knows the true state of every worker and the length of the answer; looks at all workers.

    It adds to the expected time what the requests that are there lose by this one.
    """

    _OTHERS = 0.1
    """Knowing nothing of what comes, more than this made it no better."""

    def __init__(self, fleet: Sequence[Worker], random: Random) -> None:
        self._fleet = fleet

    def choose(self, request: Request, up: Sequence[int], now: float) -> int:
        """Where it ends first."""
        return min(up, key=lambda worker: self._cost(self._fleet[worker], request))

    def _cost(self, worker: Worker, request: Request) -> float:
        read_tokens = request.prompt_tokens - worker.cache.match(request)
        steps = request.answer_tokens / worker.acceptance(request)
        token_seconds = worker.model.prompt_token_seconds * worker.slowness
        seconds = (worker.unread_tokens + read_tokens) * token_seconds
        seconds += steps * worker.step_seconds(worker.present + 1)
        slower = worker.step_seconds(1) - worker.step_seconds(0)
        others = worker.present * (read_tokens * token_seconds + steps * slower)
        return seconds + self._OTHERS * others + len(worker.waiting)


MakeRule = Callable[[Sequence[Worker], Random], Rule]

OTHERS: Mapping[str, MakeRule] = {
    "round_robin": RoundRobin,
    "random": Drawn,
    "least_loaded": LeastLoaded,
    "cache_aware": CacheAware,
    "oracle": Oracle,
}
"""All but the gateway's own. `least_loaded` is also vllm-router's `power_of_two`."""
