"""Workers for the tests of `upstream`; they connect only when used."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

from gateway.routing import Router
from gateway.types import Foreseen, WorkerId
from gateway.upstream import (
    ConnectionTimeouts,
    EjectionPolicy,
    Outlier,
    Pool,
    Worker,
    WorkerAddress,
    WorkerClient,
)
from tests.unit.gateway.virtual_time import now


class Observations:
    """Records the reports of a pool."""

    def __init__(self) -> None:
        self.ups: list[tuple[str, bool]] = []
        self.loads: list[tuple[str, int]] = []
        self.failures: list[tuple[str, str]] = []
        self.ejections: list[tuple[str, str]] = []
        self.readmitted: list[str] = []
        self.left: list[str] = []
        self.known: list[int] = []
        self.reasons: list[str] = []
        self.routes: list[tuple[Foreseen, Foreseen]] = []

    def workers_known(self, count: int) -> None:
        self.known.append(count)

    def worker_joined(self, worker: WorkerId) -> None:
        self.ups.append((worker, False))

    def worker_up(self, worker: WorkerId, up: bool) -> None:
        self.ups.append((worker, up))

    def worker_load(self, worker: WorkerId, in_flight: int) -> None:
        self.loads.append((worker, in_flight))

    def worker_failed(self, worker: WorkerId, reason: str) -> None:
        self.failures.append((worker, reason))

    def worker_ejected(self, worker: WorkerId, reason: str) -> None:
        self.ejections.append((worker, reason))

    def worker_readmitted(self, worker: WorkerId) -> None:
        self.readmitted.append(worker)

    def worker_left(self, worker: WorkerId) -> None:
        self.left.append(worker)

    def request_routed(self, reason: str) -> None:
        self.reasons.append(reason)

    def route_ended(self, expected: Foreseen, seen: Foreseen) -> None:
        self.routes.append((expected, seen))


def make_worker(name: str, url: str = "http://127.0.0.1:1") -> Worker:
    client = WorkerClient(WorkerAddress(name, url), ConnectionTimeouts(1, 1), api_key=None)
    policy = EjectionPolicy(failures=2, base_seconds=1, max_seconds=4)
    return Worker(WorkerId(name), client, Outlier(policy))


@asynccontextmanager
async def pool_of(
    workers: Sequence[Worker],
    observations: Observations | None = None,
    *,
    router: Router | None = None,
) -> AsyncIterator[Pool]:
    """A pool on the running loop's clock; closes the workers' connections."""
    pool = Pool(
        workers,
        observations or Observations(),
        slow_start_seconds=10,
        random=Random(1),
        router=router,
        clock=now,
    )
    try:
        yield pool
    finally:
        for worker in workers:
            await worker.client.close()
