"""All workers of this gateway: which are up, which gets the next request, which are ejected."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Protocol

import structlog

from gateway.errors import (
    ModelNotFoundError,
    NoHealthyWorkerError,
    UpstreamError,
    WorkerBusyError,
    WorkerLostError,
    excerpt,
)
from gateway.routing import NO_ASK, Ask, Candidate, Report, Route, Router, choose
from gateway.types import Foreseen, WorkerId
from gateway.upstream.lease import Lease
from gateway.upstream.worker import Worker

log = structlog.get_logger(__name__)

_TRIAL_POLL_SECONDS = 0.1


class PoolObserver(Protocol):
    """Counts what happens to workers."""

    def workers_known(self, count: int) -> None:
        """The pool has `count` workers now."""

    def worker_joined(self, worker: WorkerId) -> None:
        """A worker joined the pool; it is not up yet."""

    def worker_up(self, worker: WorkerId, up: bool) -> None:
        """A worker came up or went down."""

    def worker_load(self, worker: WorkerId, in_flight: int) -> None:
        """The number of requests that a worker runs changed."""

    def worker_failed(self, worker: WorkerId, reason: str) -> None:
        """A request failed on a worker."""

    def worker_ejected(self, worker: WorkerId, reason: str) -> None:
        """A worker gets no requests for a while."""

    def worker_readmitted(self, worker: WorkerId) -> None:
        """An ejected worker gets requests again."""

    def worker_left(self, worker: WorkerId) -> None:
        """A worker left the pool."""

    def request_routed(self, reason: str) -> None:
        """A worker was chosen, for a reason."""

    def route_ended(self, expected: Foreseen, seen: Foreseen) -> None:
        """A routed request was answered."""


class Pool:
    """Leases workers to requests, and ejects those that keep failing.

    Args:
        workers: The workers at the start; others may join.
        observer: Notified of every change.
        slow_start_seconds: How long a recovered worker gets fewer requests.
        random: Source of the routing draws.
        router: Chooses workers; None: the less loaded of two drawn at random.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        observer: PoolObserver,
        *,
        slow_start_seconds: float,
        random: Random,
        router: Router | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.workers: tuple[Worker, ...] = ()
        self._by_name: dict[WorkerId, Worker] = {}
        self._router = router
        self._observer = observer
        self._slow_start_seconds = slow_start_seconds
        self._random = random
        self._clock = clock
        self._changed = asyncio.Event()
        self._leases: set[Lease] = set()
        observer.workers_known(0)
        for worker in workers:
            self.join(worker)

    @property
    def is_ready(self) -> bool:
        """Whether any worker could take a request now."""
        now = self._clock()
        return any(worker.can_take(None, now) for worker in self.workers)

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """Every model of any worker, by name; for a worker that is down, its last known models."""
        return {name: entry for worker in self.workers for name, entry in worker.models.items()}

    def model_limit(self, model: str | None) -> int | None:
        """Most tokens of prompt and output that `model` takes; None if no worker has told."""
        limit = self.models.get(model or "", {}).get("max_model_len")
        return limit if isinstance(limit, int) else None

    def require_model(self, model: str | None) -> str | None:
        """The model to route by: `model`, or the only one served if it is None.

        Raises:
            ModelNotFoundError: Every worker's list of models is known, and none has the model.
        """
        if model is None:
            only = list(self.models)
            return only[0] if len(only) == 1 else None
        known = self.workers and all(worker.models for worker in self.workers)
        if known and model not in self.models:
            raise ModelNotFoundError(f"The model '{excerpt(model)}' does not exist.", param="model")
        return model

    @property
    def reads_prompts(self) -> bool:
        """Whether the choice of a worker depends on the prompt."""
        return self._router is not None and len(self.workers) > 1

    def find(self, name: WorkerId) -> Worker | None:
        """The worker of this name, if it is up."""
        return next((worker for worker in self.workers if worker.id == name and worker.up), None)

    def has_other(self, model: str | None, than: Collection[WorkerId]) -> bool:
        """Whether a worker outside of `than` could take a request for `model` now."""
        now = self._clock()
        return any(w.can_take(model, now) and w.id not in than for w in self.workers)

    @asynccontextmanager
    async def lease(
        self,
        model: str | None,
        *,
        wait_seconds: float,
        avoid: Collection[WorkerId],
        ask: Ask = NO_ASK,
    ) -> AsyncIterator[Lease]:
        """Lease a worker for one request, waiting while none can take it.

        How the block ends tells how the worker did. An `UpstreamError` is its failure, even if it
        is about to be replayed. A cancellation, or a worker that says that it is busy, proves
        nothing. Everything else is an answer.

        Args:
            model: Only a worker that serves it; None for any.
            wait_seconds: Longest wait.
            avoid: Workers that already failed this request; leased only if there is no other.
            ask: What is known of the request, if `reads_prompts`.

        Raises:
            NoHealthyWorkerError: None could take it in time.
        """
        worker, route = await self._wait_for_worker(
            model, wait_seconds=wait_seconds, avoid=avoid, ask=ask
        )
        trial = worker.outlier.begin(self._clock())
        self._load(worker, 1)
        self._observer.request_routed("least_loaded" if route is None else route.reason)
        lease = Lease(worker, route, self._router)
        lease.begin(self._clock())
        self._leases.add(lease)
        try:
            yield lease
        except BaseException as error:
            self._judge(worker, trial, error)
            raise
        else:
            self._judge(worker, trial, None)
        finally:
            self._leases.discard(lease)
            lease.hand_over = None  # it refers to the relay, which refers to the lease
            self._load(worker, -1)
            self._end(lease)

    def on_leave(self, lease: Lease, hand_over: Callable[[], bool]) -> None:
        """Call `hand_over` when the lease's worker leaves, and when others come up after that.

        Args:
            lease: Of a request that another worker could go on with.
            hand_over: As in `Lease`.
        """
        lease.hand_over = hand_over
        self._move(lease)

    def join(self, worker: Worker) -> None:
        """Add a worker; it gets requests once a probe has found it up."""
        self.workers = (*self.workers, worker)
        self._by_name[worker.id] = worker
        if self._router is not None:
            self._router.join(worker.id)
        self._observer.workers_known(len(self.workers))
        self._observer.worker_joined(worker.id)
        self._announce()

    def leave(self, worker: Worker) -> None:
        """Remove a worker: it gets no new requests.

        Its running ones are handed over once another worker is up, if they can be; others stay.
        """
        self.workers = tuple(other for other in self.workers if other is not worker)
        worker.up = False
        del self._by_name[worker.id]
        if self._router is not None:
            self._router.leave(worker.id)
        self._observer.workers_known(len(self.workers))
        self._observer.worker_left(worker.id)
        self._announce()

    async def changed(self) -> None:
        """Wait until a worker joins, leaves, comes up or goes down."""
        await self._changed.wait()

    def mark_up(self, worker: Worker) -> None:
        """Record a successful probe."""
        worker.failed_probes = 0
        if not worker.up and worker in self.workers:
            worker.up, worker.up_since = True, self._clock()
            self._route_by(worker)
            self._observer.worker_up(worker.id, True)
            if worker.outlier.readmit(self._clock()):
                self._note_readmission(worker)
            self._announce()

    def mark_down(self, worker: Worker) -> None:
        """Record that the worker cannot be reached, or failed its probes."""
        if worker.up:
            worker.up, worker.ever_up = False, True
            self._route_by(worker)
            self._observer.worker_up(worker.id, False)
            self._announce()

    def report(self, worker: Worker, report: Report) -> None:
        """Record what a worker told of its load."""
        if self._router is not None and worker in self.workers:
            self._router.report(worker.id, report)

    def _route_by(self, worker: Worker) -> None:
        if self._router is not None and worker in self.workers:
            self._router.set_up(worker.id, worker.up)

    def _end(self, lease: Lease) -> None:
        now = self._clock()
        lease.end(now)
        route, answered = lease.route, lease.answered
        if route is not None and answered is not None:
            self._observer.route_ended(
                Foreseen(route.expected_seconds, route.cached_tokens),
                Foreseen(now - route.sent, answered.cached_tokens),
            )

    def _load(self, worker: Worker, requests: int) -> None:
        worker.in_flight += requests
        if worker in self.workers:  # else it left, and its metrics with it
            self._observer.worker_load(worker.id, worker.in_flight)

    def _judge(self, worker: Worker, trial: int | None, error: BaseException | None) -> None:
        """Record how a request ended; see `lease`."""
        if worker not in self.workers:
            return  # it left, and its metrics with it
        now, outlier = self._clock(), worker.outlier
        if isinstance(error, UpstreamError):
            self._observer.worker_failed(worker.id, error.reason)
        match error:
            case asyncio.CancelledError() | WorkerBusyError():
                outlier.abandon(trial)
            case UpstreamError():
                if isinstance(error, WorkerLostError) and not error.sent:
                    self.mark_down(worker)
                if outlier.fail(trial, now, may_eject=self._may_eject(worker)):
                    self._note_ejection(worker, error.reason)
            case _:
                if outlier.succeed(trial, now):
                    self._note_readmission(worker)

    def _may_eject(self, worker: Worker) -> bool:
        """Whether at most half of the workers that are up would be ejected.

        This holds for the workers of each model: a request that fails everywhere must not take all
        workers of its model away from the others. So a single worker is never ejected. If it
        cannot be reached it goes down at once; otherwise its probes decide.
        """
        up = [other for other in self.workers if other.up]
        if worker not in up:
            return False
        groups = [[other for other in up if model in other.models] for model in worker.models]
        return all(
            2 * (1 + sum(other.outlier.is_ejected for other in group)) <= len(group)
            for group in groups or [up]
        )

    def _note_ejection(self, worker: Worker, reason: str) -> None:
        self._observer.worker_ejected(worker.id, reason)
        log.warning(
            "worker_ejected",
            worker=worker.id,
            reason=reason,
            seconds=worker.outlier.ejection_seconds,
            ejections=worker.outlier.ejections,
        )

    def _note_readmission(self, worker: Worker) -> None:
        self._observer.worker_readmitted(worker.id)
        log.info("worker_readmitted", worker=worker.id)
        self._announce()

    async def _wait_for_worker(
        self, model: str | None, *, wait_seconds: float, avoid: Collection[WorkerId], ask: Ask
    ) -> tuple[Worker, Route | None]:
        deadline = self._clock() + wait_seconds
        while (found := self._pick(model, avoid, ask)) is None:
            left = deadline - self._clock()
            if left <= 0:
                raise NoHealthyWorkerError(
                    "No engine is available at the moment.", retry_after_seconds=5.0
                )
            changed = self._changed
            try:
                # A trial becomes due by the clock, without an event: check regularly.
                async with asyncio.timeout(min(left, _TRIAL_POLL_SECONDS)):
                    await changed.wait()
            except TimeoutError:
                continue
        return found

    def _pick(
        self, model: str | None, avoid: Collection[WorkerId], ask: Ask
    ) -> tuple[Worker, Route | None] | None:
        if self._router is not None:
            return self._route(self._router, model, avoid, ask)
        now = self._clock()
        able = [worker for worker in self.workers if worker.can_take(model, now)]
        able = [worker for worker in able if worker.id not in avoid] or able
        if not able:
            return None
        ramp = self._slow_start_seconds
        chosen = choose(
            [Candidate(w.id, w.in_flight, w.weight(now, ramp_seconds=ramp)) for w in able],
            self._random,
        )
        return self._by_name[chosen], None

    def _route(
        self, router: Router, model: str | None, avoid: Collection[WorkerId], ask: Ask
    ) -> tuple[Worker, Route] | None:
        now, by_name = self._clock(), self._by_name

        def can_take(name: WorkerId) -> bool:
            return by_name[name].can_take(model, now)

        route = router.choose(ask, lambda name: name not in avoid and can_take(name))
        if route is None and avoid:
            route = router.choose(ask, can_take)
        return None if route is None else (by_name[route.worker], route)

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for lease in self._leases:
            self._move(lease)

    def _move(self, lease: Lease) -> None:
        """Have a request taken from a worker that has left."""
        has_left = self._by_name.get(lease.worker.id) is not lease.worker
        if has_left and lease.hand_over is not None and lease.hand_over():
            lease.hand_over = None
