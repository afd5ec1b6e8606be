"""All workers of this gateway: which are up, which gets the next request, which failed."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Protocol

from gateway.errors import (
    ModelNotFoundError,
    NoHealthyWorkerError,
    UpstreamError,
    WorkerLostError,
    WorkerTimeoutError,
)
from gateway.routing import Candidate, choose
from gateway.types import WorkerId
from gateway.upstream.worker import Worker

_BREAKER_POLL_SECONDS = 0.1


class PoolObserver(Protocol):
    """Counts what happens to workers."""

    def workers_known(self, count: int) -> None:
        """The pool has `count` workers now."""

    def worker_up(self, worker: WorkerId, up: bool) -> None:
        """A worker came up or went down."""

    def worker_failed(self, worker: WorkerId, reason: str) -> None:
        """A request failed on a worker."""

    def worker_left(self, worker: WorkerId) -> None:
        """A worker left the pool."""


class Pool:
    """Leases workers to requests and records their failures.

    Args:
        workers: The workers at the start; others may join.
        observer: Notified of every change.
        slow_start_seconds: How long a recovered worker gets fewer requests.
        random: Source of the routing draws.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        observer: PoolObserver,
        *,
        slow_start_seconds: float,
        random: Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.workers: tuple[Worker, ...] = ()
        self._observer = observer
        self._slow_start_seconds = slow_start_seconds
        self._random = random
        self._clock = clock
        self._changed = asyncio.Event()
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
            raise ModelNotFoundError(f"The model '{model}' does not exist.", param="model")
        return model

    @asynccontextmanager
    async def lease(
        self, model: str | None, *, wait_seconds: float, avoid: set[WorkerId]
    ) -> AsyncIterator[Worker]:
        """Lease a worker for one request, waiting while none is up.

        An error raised in the block counts as the worker's failure if it is a lost connection or a
        timeout.

        Args:
            model: Only a worker that serves it; None for any.
            wait_seconds: Longest wait.
            avoid: Workers that already failed this request; leased only if there is no other.

        Raises:
            NoHealthyWorkerError: None came up in time.
        """
        worker = await self._wait_for_worker(model, wait_seconds=wait_seconds, avoid=avoid)
        worker.breaker.begin(self._clock())
        worker.in_flight += 1
        try:
            yield worker
        except (WorkerLostError, WorkerTimeoutError) as error:
            self._note_failure(worker, error)
            raise
        except BaseException:
            worker.breaker.abandon()
            raise
        else:
            worker.breaker.succeed()
        finally:
            worker.in_flight -= 1

    def join(self, worker: Worker) -> None:
        """Add a worker; it gets requests once a probe has found it up."""
        self.workers = (*self.workers, worker)
        self._observer.workers_known(len(self.workers))
        self._observer.worker_up(worker.id, False)
        self._announce()

    def leave(self, worker: Worker) -> None:
        """Remove a worker: it gets no new requests, and its running ones continue."""
        self.workers = tuple(other for other in self.workers if other is not worker)
        worker.up = False
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
            worker.breaker.succeed()
            self._observer.worker_up(worker.id, True)
            self._announce()

    def mark_down(self, worker: Worker) -> None:
        """Record that the worker cannot be reached, or failed its probes."""
        if worker.up:
            worker.up, worker.ever_up = False, True
            self._observer.worker_up(worker.id, False)
            self._announce()

    def _note_failure(self, worker: Worker, error: UpstreamError) -> None:
        worker.breaker.fail(self._clock())
        self._observer.worker_failed(worker.id, error.reason)
        if isinstance(error, WorkerLostError) and not error.sent:
            self.mark_down(worker)

    async def _wait_for_worker(
        self, model: str | None, *, wait_seconds: float, avoid: set[WorkerId]
    ) -> Worker:
        deadline = self._clock() + wait_seconds
        while (worker := self._pick(model, avoid)) is None:
            left = deadline - self._clock()
            if left <= 0:
                raise NoHealthyWorkerError(
                    "No engine is available at the moment.", retry_after_seconds=5.0
                )
            changed = self._changed
            try:
                # A breaker leaves OPEN by the clock, without an event: check regularly.
                async with asyncio.timeout(min(left, _BREAKER_POLL_SECONDS)):
                    await changed.wait()
            except TimeoutError:
                continue
        return worker

    def _pick(self, model: str | None, avoid: set[WorkerId]) -> Worker | None:
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
        return next(worker for worker in able if worker.id == chosen)

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
