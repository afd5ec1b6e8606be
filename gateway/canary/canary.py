"""Chooses requests, keeps their tokens, and asks again in idle moments.

A second asking takes no slot, charges no key and counts in no request metric. It is aborted when a
request arrives. Of an answer only token ids are kept; the body of a request is kept until it was
asked again, in bounded memory.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import structlog

from gateway.canary.budget import TimeBudget
from gateway.canary.compare import MARGINS, first_difference, source_at
from gateway.canary.defects import Defects, allowed_mode
from gateway.errors import UpstreamError
from gateway.protocol import (
    Endpoint,
    InferenceRequest,
    PlainAnswer,
    read_second_answer,
    second_body,
)
from gateway.telemetry import GatewayMetrics
from gateway.types import PacingMode, WorkerId
from gateway.upstream import Worker

log = structlog.get_logger(__name__)

_MOST_WAITING = 64
_MOST_WAITING_BYTES = 16 * 2**20
_MOST_WAIT_SECONDS = 600.0
_MOST_ASKING_SECONDS = 120.0
_MOST_ANSWER_BYTES = 2**24
_MOST_TRIES = 3
_QUIET_SECONDS = 0.25
"""A client that asks one request after the other leaves shorter pauses."""
_BUSY_POLL_SECONDS = 1.0
_READ_SECONDS = 5.0
_FOLLOW_SECONDS = 1.0
_REQUESTS = re.compile(
    rb"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})? (\S+)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class CanaryPolicy:
    """What is watched.

    Attributes:
        share: Share of the requests, 0 to 1.
        max_tokens: Tokens of an answer that are compared.
        margin: Largest margin of a near-tie; None: by the model's dtype.
    """

    share: float
    max_tokens: int
    margin: float | None


@dataclass(slots=True, eq=False)
class Watched:
    """A request that was answered and waits for its second asking.

    Attributes:
        request_id: The `X-Request-Id` that the worker got.
        model: Its name in metrics.
        worker: Who answered.
        endpoint: Where it was sent.
        body: As it was forwarded.
        ids: Tokens of the answer.
        sources: Who drafted each of them.
        since_seconds: When it was answered.
        tries: How often asking again was aborted.
    """

    request_id: str
    model: str
    worker: WorkerId
    endpoint: Endpoint
    body: bytes = field(repr=False)
    ids: Sequence[int]
    sources: Sequence[str]
    since_seconds: float = 0.0
    tries: int = 0

    @property
    def canary_id(self) -> str:
        """The `X-Request-Id` of the next try, which no other one has."""
        return f"canary-{self.tries + 1}-{self.request_id}"


class Canary:
    """Watches the requests of one process; the owner cancels `run` and `follow`.

    Args:
        policy: What is watched.
        defects: Counts them.
        budget: Bounds the time.
        metrics: Counts results.
        find_worker: Returns a worker that is up; None if it is not.
        random: Chooses requests.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        policy: CanaryPolicy,
        defects: Defects,
        budget: TimeBudget,
        metrics: GatewayMetrics,
        *,
        find_worker: Callable[[WorkerId], Worker | None],
        random: Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._budget = budget
        self._metrics = metrics
        self._find_worker = find_worker
        self._random = random
        self._clock = clock
        self._waiting: deque[Watched] = deque()
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._quiet_since_seconds = float("-inf")
        self._asking: asyncio.Task[bool] | None = None
        self.defects = defects

    def prepare(
        self, request: InferenceRequest, *, model: str, pacing: PacingMode
    ) -> InferenceRequest:
        """Return a new request without the sources that are shut, and watched if it was drawn."""
        if shut := self.defects.shut(model):
            request = request.with_mode(allowed_mode(request.speculation.mode, shut))
        if self._random.random() >= self._policy.share or pacing == "private":
            return request
        return request.watched(self._policy.max_tokens)

    def offer(self, watched: Watched) -> None:
        """Take a watched request whose answer is complete."""
        self._metrics.canary_watched(watched.model)
        if not watched.ids:
            return self._skip(watched, "no_tokens")
        if len(watched.sources) < len(watched.ids):
            return self._skip(watched, "plain_worker")
        held = sum(len(other.body) for other in self._waiting)
        if len(self._waiting) >= _MOST_WAITING or held + len(watched.body) > _MOST_WAITING_BYTES:
            return self._skip(watched, "full")
        watched.since_seconds = self._clock()
        self._waiting.append(watched)
        self._arrived.set()
        return None

    def slots_changed(self, running: int, queued: int) -> None:
        """The numbers of running and queued requests changed: abort an asking if there are any."""
        if running or queued:
            self._idle.clear()
            if self._asking is not None:
                self._asking.cancel()
        else:
            self._idle.set()
            self._quiet_since_seconds = self._clock()

    async def run(self) -> None:
        """Ask again, until cancelled."""
        while True:
            watched = await self._next()
            began = self._clock()
            self._asking = asyncio.create_task(self._ask(watched), name="canary-asking")
            try:
                done, _ = await asyncio.wait({self._asking}, timeout=_MOST_ASKING_SECONDS)
            finally:
                self._asking.cancel()
                await asyncio.wait({self._asking})
                self._budget.spend(began, self._clock())
                self._metrics.canary_seconds.inc(self._clock() - began)
            asking, self._asking = self._asking, None
            if not done:
                self._skip(watched, "failed")
            elif asking.cancelled():
                self._put_back(watched)
            elif (error := asking.exception()) is not None:
                # No more of it: the text of an error may quote the answer.
                why = error.message if isinstance(error, UpstreamError) else type(error).__name__
                log.warning("canary_failed", canary_id=watched.canary_id, error=why)
                self._skip(watched, "failed")
            elif not asking.result():
                self._waiting.append(watched)
                await asyncio.sleep(_BUSY_POLL_SECONDS)

    async def follow(self) -> None:
        """Take over what other processes count, and drop what waits too long, until cancelled."""
        while True:
            self._drop_late()
            try:
                self.defects.refresh()
            except (OSError, ValueError) as error:
                log.error("canary_file_unusable", error=str(error))
            await asyncio.sleep(_FOLLOW_SECONDS)

    async def _next(self) -> Watched:
        """Wait until a request may be asked again."""
        while True:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            await self._idle.wait()
            now = self._clock()
            quiet = self._quiet_since_seconds + _QUIET_SECONDS - now
            if (pause := max(quiet, self._budget.pause_seconds(now))) > 0:
                await asyncio.sleep(pause)
            elif self._waiting:
                return self._waiting.popleft()

    def _put_back(self, watched: Watched) -> None:
        """A request arrived."""
        watched.tries += 1
        if watched.tries >= _MOST_TRIES:
            self._skip(watched, "busy")
        else:
            self._waiting.appendleft(watched)

    async def _ask(self, watched: Watched) -> bool:
        """Ask again and note the result; False while the worker is busy."""
        worker = self._find_worker(watched.worker)
        if worker is None:
            self._skip(watched, "worker_gone")
            return True
        _, page = await worker.client.get("/metrics", timeout_seconds=_READ_SECONDS)
        requests = _REQUESTS.findall(page)
        if not requests or any(float(count) for count in requests):
            return False
        body = second_body(
            watched.body,
            watched.endpoint.dialect,
            max_tokens=len(watched.ids),
            salt=watched.canary_id,
        )
        headers = {"content-type": "application/json", "x-request-id": watched.canary_id}
        async with worker.client.post(watched.endpoint.path, body, headers) as answer:
            text = await answer.read(max_bytes=_MOST_ANSWER_BYTES)
            if answer.status != 200:
                self._skip(watched, "refused")
                return True
        await self._compare(watched, worker, read_second_answer(text))
        return True

    async def _compare(self, watched: Watched, worker: Worker, plain: PlainAnswer) -> None:
        found = first_difference(watched.ids, plain)
        if found is None:
            return self._metrics.canary_compared(watched.model, "same")
        margin = self._policy.margin
        verdict = found.verdict(await _margin_of(worker) if margin is None else margin)
        source = source_at(found.place, watched.sources)
        facts = {
            "request_id": watched.request_id,
            "canary_id": watched.canary_id,
            "model": watched.model,
            "worker": watched.worker,
            "place": found.place,
            "source": source,
            "margin": found.margin,
        }
        match verdict:
            case "unclear":
                return self._skip(watched, "unclear")
            case "near_tie":
                log.info("canary_near_tie", **facts)
            case "differs":
                log.error("canary_differs", **facts)
                self._count(watched.model, source)
        return self._metrics.canary_compared(watched.model, verdict)

    def _count(self, model: str, source: str) -> None:
        try:
            self.defects.add(model, source)
        except (OSError, ValueError) as error:
            log.error("canary_file_unusable", error=str(error))

    def _drop_late(self) -> None:
        oldest = self._clock() - _MOST_WAIT_SECONDS
        for watched in [one for one in self._waiting if one.since_seconds < oldest]:
            self._waiting.remove(watched)
            self._skip(watched, "late")

    def _skip(self, watched: Watched, reason: str) -> None:
        log.debug("canary_skipped", canary_id=watched.canary_id, reason=reason)
        self._metrics.canary_skipped(watched.model, reason)


async def _margin_of(worker: Worker) -> float:
    """The margin of a worker's dtype, if it says that; else that of bfloat16."""
    found = await worker.client.get_json("/speculation", timeout_seconds=_READ_SECONDS)
    engines = found.get("engines") or [{}]
    dtype = str((engines[0].get("exactness") or {}).get("dtype"))
    return MARGINS.get(dtype, MARGINS["bfloat16"])
