"""Takes a sample every few seconds: reads the metrics, and asks every worker that is up.

A worker that hangs or answers garbage costs its own part of a sample, and delays none.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import floor

import msgspec
import structlog

from gateway.errors import UpstreamError
from gateway.live.history import SOURCES, DraftTotals, History, Sample
from gateway.live.page import Links, WorkerView, build_page
from gateway.live.report import EngineReport, read_report
from gateway.supervisor import SupervisorFacts
from gateway.telemetry import Totals, WorkerTotals
from gateway.types import WorkerId
from gateway.upstream import Pool, Worker

log = structlog.get_logger(__name__)

_PATH = "/speculation"
_MOST_ASK_SECONDS = 2.0
_DOWN = "The worker is not up."
_MOST_MODELS = 100
_MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Reading:
    """What this process reads without asking a worker.

    Attributes:
        totals: Of all processes.
        supervisor: Of the gateway's own worker; None if there is none, or nothing is known yet.
    """

    totals: Totals
    supervisor: SupervisorFacts | None


class Sampler:
    """Takes the samples, keeps the latest, and shows them.

    Args:
        pool: The workers.
        read: Reads the metrics; called on a thread.
        every_seconds: Between two samples, which are at multiples of it by the wall clock: then all
            processes of a gateway take theirs at the same times.
        links: To show.
        now: Unix seconds.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        pool: Pool,
        read: Callable[[], Reading],
        *,
        every_seconds: float,
        links: Links,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._read = read
        self._every_seconds = every_seconds
        self._links = links
        self._now = now
        self._clock = clock
        self._history = History()
        self._views: dict[WorkerId, WorkerView] = {}
        self._page: bytes | None = None

    async def run(self) -> None:
        """Take samples until cancelled. A sample that fails is logged and left out."""
        last = 0.0
        while True:
            now = self._now()
            due = (floor(now / self._every_seconds) + 1) * self._every_seconds
            if due == last:  # the timer was early
                due += self._every_seconds
            await asyncio.sleep(due - now)
            last = due
            try:
                await self.sample(due)
            except Exception as error:  # a background loop goes on
                log.error("live_sample_failed", exc_info=error)

    async def sample(self, at: float) -> None:
        """Take one sample.

        Args:
            at: Unix seconds.
        """
        clock = self._clock()
        reading = await asyncio.to_thread(self._read)
        workers = self._pool.workers
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._look_at(worker, reading)) for worker in workers]
        self._views = {view.worker: view for view in (task.result() for task in asked)}
        fresh = [view for view in self._views.values() if view.error is None]
        engines = [(view.worker, engine) for view in fresh for engine in view.engines]
        self._history.add(
            Sample(
                at,
                clock,
                reading.totals,
                tuple(engine.price for _, engine in engines if engine.price is not None),
                {
                    (worker, engine.engine, name): _drafts_of(engine, name)
                    for worker, engine in engines
                    for name in SOURCES
                },
            )
        )
        self._page = None

    def page(self) -> bytes:
        """The JSON of `GET /live`. It is built once a sample, but for its first field."""
        if self._page is None:
            page = build_page(
                list(self._history),
                self._views.values(),
                every_seconds=self._every_seconds,
                links=self._links,
            )
            self._page = msgspec.json.encode(page).removeprefix(b"{")
        return b'{"now":%.3f,' % self._now() + self._page

    async def _look_at(self, worker: Worker, reading: Reading) -> WorkerView:
        """What is known of a worker now; where it does not tell, what it told last."""
        view = replace(
            self._views.get(worker.id, WorkerView(worker.id)),
            models=_names(worker),
            supervisor=None if worker.client.address.socket_path is None else reading.supervisor,
            totals=reading.totals.workers.get(worker.id, WorkerTotals()),
        )
        if not worker.up:
            return replace(view, error=_DOWN)
        timeout_seconds = min(_MOST_ASK_SECONDS, self._every_seconds / 2)
        try:
            status, body = await worker.client.get(_PATH, timeout_seconds=timeout_seconds)
            if status != 200:
                raise UpstreamError(f"The engine answered {status} on {_PATH}.")
            engines = read_report(body)
        except UpstreamError as error:
            return replace(view, error=error.message)
        return replace(view, engines=engines, reported=round(self._now(), 3), error=None)


def _drafts_of(engine: EngineReport, source: str) -> DraftTotals:
    """What a source has drafted; an engine says nothing of one that never drafted."""
    count = engine.drafts.get(source)
    return DraftTotals(0, 0) if count is None else DraftTotals(count.drafted, count.accepted)


def _names(worker: Worker) -> tuple[str, ...]:
    """The models of a worker, in bounds: the worker may have sent any string."""
    names = sorted(worker.models)[:_MOST_MODELS]
    return tuple(name[:_MOST_CHARACTERS].encode(errors="replace").decode() for name in names)
