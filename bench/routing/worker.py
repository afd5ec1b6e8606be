"""A simulated worker: continuous batching, chunked reading of prompts, prefix cache, suffix index.

Time passes in steps. A step takes a fixed time, a time for each running request, and one for each
prompt token in it. Steps without prompts are passed over together until the next request ends.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from heapq import heappop, heappush

from bench.routing.traffic import Request


@dataclass(frozen=True, slots=True)
class Model:
    """What a worker of normal speed takes, in seconds and tokens.

    Attributes:
        step_seconds: Of a step, whatever it does.
        sequence_seconds: More, for each running request.
        prompt_token_seconds: More, for each prompt token.
        chunk_tokens: Most prompt tokens of a step.
        most_running: Requests at a time.
        cache_tokens: Size of the KV cache.
        index_tokens: Tokens of a tenant that the index needs for half of what it brings.
    """

    step_seconds: float = 0.025
    sequence_seconds: float = 0.0004
    prompt_token_seconds: float = 2e-4
    chunk_tokens: int = 1024
    most_running: int = 128
    cache_tokens: int = 400_000
    index_tokens: int = 4_000


@dataclass(slots=True, eq=False)
class Job:
    """A request at a worker.

    Attributes:
        sent, first, ended: Seconds; the last two once they happened.
        cached_tokens: Of its prompt, found in the cache.
    """

    request: Request
    sent: float
    cached_tokens: int = 0
    left_tokens: int = 0
    steps: float = 0.0
    first: float | None = None
    ended: float | None = None


class Cache:
    """A prefix cache. Of each node of the tree of prompts it holds a first part."""

    def __init__(self, tokens: int) -> None:
        self._most = tokens
        self._tokens = 0
        self._nodes: OrderedDict[int, int] = OrderedDict()

    def match(self, request: Request) -> int:
        """Tokens of a prompt that are held."""
        system = self._nodes.get(request.system, 0)
        if system < request.system_tokens:
            return min(system, request.prompt_tokens - 1)
        own = self._nodes.get(request.conversation, 0)
        return min(request.system_tokens + own, request.prompt_tokens - 1)

    def put(self, request: Request, tokens: int) -> None:
        """Hold the first `tokens` of a conversation."""
        for node, size in (
            (request.conversation, tokens - request.system_tokens),
            (request.system, request.system_tokens),
        ):
            known = self._nodes.get(node, 0)
            self._tokens += max(0, size - known)
            self._nodes[node] = max(size, known)
            self._nodes.move_to_end(node)
        while self._tokens > self._most:
            node, size = next(iter(self._nodes.items()))
            cut = min(size, self._tokens - self._most)
            self._tokens -= cut
            if cut == size:
                del self._nodes[node]
            else:
                self._nodes[node] = size - cut


class Worker:
    """One worker; `slowness` 2 takes twice the time."""

    def __init__(self, model: Model, *, slowness: float = 1.0) -> None:
        self.model = model
        self.slowness = slowness
        self.now = 0.0
        self.present_seconds = 0.0
        self.waiting: deque[Job] = deque()
        self.reading: deque[Job] = deque()
        self._decoding: list[tuple[float, int, Job]] = []
        self._jobs = 0
        self._steps = 0.0
        self._held_tokens = 0
        self._step_ends: float | None = None
        self._step_chunk = 0
        self.reset()

    def reset(self) -> list[Job]:
        """Start anew: cache and index are empty; returns the jobs that are lost."""
        lost = [*self.waiting, *self.reading, *(job for *_, job in self._decoding)]
        self.waiting.clear()
        self.reading.clear()
        self._decoding.clear()
        self._held_tokens = 0
        self._step_ends = None
        self.cache = Cache(self.model.cache_tokens)
        self.index: dict[int, int] = {}
        return lost

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self.reading) + len(self._decoding)

    @property
    def present(self) -> int:
        """Requests in all."""
        return self.running + len(self.waiting)

    @property
    def unread_tokens(self) -> int:
        """Prompt tokens that are to be read."""
        return sum(job.left_tokens for job in self.reading) + sum(
            job.request.prompt_tokens - self.cache.match(job.request) for job in self.waiting
        )

    def acceptance(self, request: Request) -> float:
        """Tokens of a step, for a request."""
        seen = self.index.get(request.tenant, 0)
        return 1 + request.gain * (0.3 + 0.7 * seen / (seen + self.model.index_tokens))

    def step_seconds(self, sequences: float, prompt_tokens: int = 0) -> float:
        """The time of a step."""
        model = self.model
        return self.slowness * (
            model.step_seconds
            + model.sequence_seconds * sequences
            + model.prompt_token_seconds * prompt_tokens
        )

    def add(self, job: Job) -> None:
        """A request arrives, now."""
        self.waiting.append(job)
        self._admit()

    def next_event(self) -> float | None:
        """When something ends next, if nothing arrives."""
        if self._step_ends is not None:
            return self._step_ends
        if self.reading:
            self._begin_step()
            return self._step_ends
        if not self._decoding:
            return None
        left = max(0.0, self._decoding[0][0] - self._steps)
        return self.now + left * self.step_seconds(len(self._decoding))

    def advance(self, until: float) -> list[Job]:
        """Let time pass; returns requests whose first token came or that ended, in order."""
        done: list[Job] = []
        while (event := self.next_event()) is not None and event <= until:
            is_step = self._step_ends is not None
            self._pass(event)
            if not is_step:  # rounding must not leave a rest
                self._steps = max(self._steps, self._decoding[0][0])
            self._end_step(done)
        self._pass(until)
        return done

    def _begin_step(self) -> None:
        self._step_chunk = min(
            self.model.chunk_tokens, sum(job.left_tokens for job in self.reading)
        )
        self._step_ends = self.now + self.step_seconds(self.running, self._step_chunk)

    def _pass(self, until: float) -> None:
        elapsed = until - self.now
        self.present_seconds += elapsed * self.present
        if self._step_ends is None and self._decoding:
            self._steps += elapsed / self.step_seconds(len(self._decoding))
        self.now = until

    def _end_step(self, done: list[Job]) -> None:
        if self._step_ends is not None:
            self._step_ends = None
            self._steps += 1
            chunk = self._step_chunk
            while chunk and self.reading:
                job = self.reading[0]
                taken = min(chunk, job.left_tokens)
                job.left_tokens -= taken
                chunk -= taken
                if job.left_tokens:
                    break
                self.reading.popleft()
                job.first = self.now
                done.append(job)
                self._jobs += 1
                steps = (job.request.answer_tokens - 1) / self.acceptance(job.request)
                job.steps = 1 + steps
                heappush(self._decoding, (self._steps + steps, self._jobs, job))
        while self._decoding and self._decoding[0][0] <= self._steps + 1e-9:
            job = heappop(self._decoding)[2]
            request = job.request
            job.ended = self.now
            whole = request.prompt_tokens + request.answer_tokens
            self._held_tokens -= whole
            self.cache.put(request, whole)
            self.index[request.tenant] = self.index.get(request.tenant, 0) + request.answer_tokens
            done.append(job)
        self._admit()

    def _admit(self) -> None:
        while self.waiting and self.running < self.model.most_running:
            job = self.waiting[0]
            request = job.request
            whole = request.prompt_tokens + request.answer_tokens
            if self.running and self._held_tokens + whole > self.model.cache_tokens:
                return
            self.waiting.popleft()
            self._held_tokens += whole
            job.cached_tokens = self.cache.match(request)
            job.left_tokens = request.prompt_tokens - job.cached_tokens
            self.cache.put(request, request.prompt_tokens)
            self.reading.append(job)
