"""The rules that compete. Each replica of the gateway has its own."""

from collections import OrderedDict
from random import Random
from typing import Protocol

from bench.routing.traffic import Request
from bench.routing.worker import Job, Worker
from gateway.routing import Answered, Ask, Prefix, Report, Route, Router, block_ends


class Rule(Protocol):
    """Chooses a worker for each request, and hears what a gateway would hear."""

    def choose(self, request: Request, up: list[int], now: float) -> int: ...
    def began(self, job: Job, worker: int, now: float) -> None: ...
    def first(self, job: Job, worker: int, now: float) -> None: ...
    def ended(self, job: Job, worker: int, now: float, *, lost: bool) -> None: ...
    def set_up(self, worker: int, up: bool) -> None: ...
    def report(self, worker: int, state: Worker) -> None: ...


class Deaf:
    """A rule that hears nothing."""

    def began(self, job, worker, now): ...
    def first(self, job, worker, now): ...
    def ended(self, job, worker, now, *, lost): ...
    def set_up(self, worker, up, now): ...
    def report(self, worker, state): ...


class RoundRobin(Deaf):
    def __init__(self, workers, random, fleet):
        self._turn = random.randrange(workers)

    def choose(self, request, up, now):
        self._turn += 1
        return up[self._turn % len(up)]


class RandomRule(Deaf):
    def __init__(self, workers, random, fleet):
        self._random = random

    def choose(self, request, up, now):
        return self._random.choice(up)


class PowerOfTwo(Deaf):
    """The less loaded of two, by the requests that this replica has sent."""

    def __init__(self, workers, random, fleet):
        self._random = random
        self.load = [0] * workers

    def choose(self, request, up, now):
        if len(up) == 1:
            return up[0]
        first, second = self._random.sample(up, 2)
        return second if self.load[second] < self.load[first] else first

    def began(self, job, worker, now):
        self.load[worker] += 1

    def ended(self, job, worker, now, *, lost):
        self.load[worker] -= 1


class CacheAware(PowerOfTwo):
    """vllm-router's `cache_aware` by its documentation, with its defaults."""

    THRESHOLD = 0.3
    ABSOLUTE = 64
    RELATIVE = 1.5
    MOST_CHARACTERS = 2**26

    def __init__(self, workers, random, fleet):
        super().__init__(workers, random, fleet)
        self._trees = [OrderedDict() for _ in range(workers)]
        self._sizes = [0] * workers
        self._holders = {}

    def choose(self, request, up, now):
        loads = self.load
        most, least = max(loads[w] for w in up), min(loads[w] for w in up)
        if most - least > self.ABSOLUTE and most > self.RELATIVE * least:
            return min(up, key=loads.__getitem__)
        able = set(up)
        best, found = 0, None
        for w in self._holders.get(request.conversation, ()) or self._holders.get(request.system, ()):
            if w in able:
                tree = self._trees[w]
                size = min(request.prompt_tokens, tree.get(request.system, 0) + tree.get(request.conversation, 0))
                if size > best:
                    best, found = size, w
        if found is not None and best > self.THRESHOLD * request.prompt_tokens:
            return found
        return min(up, key=self._sizes.__getitem__)

    def began(self, job, worker, now):
        super().began(job, worker, now)
        request = job.request
        tree = self._trees[worker]
        for node, size in (
            (request.system, request.system_tokens),
            (request.conversation, request.prompt_tokens - request.system_tokens),
        ):
            self._sizes[worker] += max(0, size - tree.get(node, 0))
            tree[node] = max(size, tree.get(node, 0))
            tree.move_to_end(node)
            self._holders.setdefault(node, set()).add(worker)
        while self._sizes[worker] * 4 > self.MOST_CHARACTERS:
            node, size = tree.popitem(last=False)
            self._sizes[worker] -= size
            self._holders[node].discard(worker)

    def set_up(self, worker, up, now):
        if not up:
            for node in self._trees[worker]:
                self._holders[node].discard(worker)
            self._trees[worker].clear()
            self._sizes[worker] = 0


def prefix_of(request: Request) -> Prefix:
    """What the gateway would make of a request's text."""
    per = request.bytes_per_token
    ends = block_ends(int(request.prompt_tokens * per))
    shared = request.system_tokens * per
    system, own = hash((request.tenant, 7, 3)), hash((request.conversation, 1, 5))
    hashes = tuple(hash((system if end <= shared else own, end)) for end in ends)
    return Prefix(hashes, tuple(ends), int(request.prompt_tokens * per), own & (2**64 - 1), request.turn > 0)


class Ours:
    def __init__(self, workers, random, fleet):
        self.router = Router(most_load=1.25, slow_start_seconds=10.0)
        self.names = [f"w{i}" for i in range(workers)]
        self.index = {n: i for i, n in enumerate(self.names)}
        for name in self.names:
            self.router.join(name)
            self.router.set_up(name, True, 0.0)
        self._next: Route | None = None
        self._trips: dict[int, Route] = {}
        self.reasons: dict[str, int] = {}
        self.error = []

    def choose(self, request, up, now):
        able = set(up) if len(up) < len(self.names) else None
        can = (lambda n: True) if able is None else (lambda n: self.index[n] in able)
        trip = self.router.choose(Ask(str(request.tenant), prefix_of(request)), can, now)
        self._next = trip
        self.reasons[trip.reason] = self.reasons.get(trip.reason, 0) + 1
        return self.index[trip.worker]

    def began(self, job, worker, now):
        self._trips[id(job)] = self._next
        self.router.begin(self._next, now)

    def first(self, job, worker, now):
        self.router.first_token(self._trips[id(job)], now)

    def ended(self, job, worker, now, *, lost):
        trip = self._trips.pop(id(job))
        request = job.request
        self.router.end(
            trip, now, None if lost else Answered(request.prompt_tokens, job.cached_tokens, request.answer_tokens, round(request.answer_tokens - job.steps))
        )
        if not lost:
            self.error.append((trip.expected_seconds, now - trip.sent))

    def set_up(self, worker, up, now):
        self.router.set_up(self.names[worker], up, now)

    def report(self, worker, state):
        self.router.report(self.names[worker], Report(state.present, state.model.cache_tokens))


class Oracle(Deaf):
    """Knows the true state of every worker, and the true length of the answer."""

    SOCIAL = 1.0

    def __init__(self, workers, random, fleet):
        self._fleet = fleet

    def choose(self, request, up, now):
        best = None
        for slot in up:
            worker = self._fleet[slot]
            read = request.prompt_tokens - worker.cache.match(request)
            steps = request.answer_tokens / worker.acceptance(request)
            n = worker.present
            unread = worker.unread_tokens
            per = worker.model.prompt_token_seconds * worker.slowness
            seconds = (unread + read) * per + steps * worker.step_seconds(n + 1)
            # what others lose
            seconds += self.SOCIAL * n * (
                read * per + steps * worker.model.sequence_seconds * worker.slowness * 0.5
            ) / 8
            if worker.waiting:
                seconds += len(worker.waiting) * 1.0
            if best is None or seconds < best[0]:
                best = (seconds, slot)
        return best[1]
