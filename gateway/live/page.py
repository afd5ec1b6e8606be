"""The JSON of `GET /live`; pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gateway import __version__
from gateway.live.history import SOURCES, Interval
from gateway.live.report import EngineReport
from gateway.supervisor import SupervisorFacts
from gateway.telemetry import Distribution, WorkerTotals
from gateway.types import WorkerId

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Links:
    """Where operators read on; None: unknown."""

    dashboards: str | None
    runbook: str


@dataclass(frozen=True, slots=True)
class WorkerView:
    """What is known of one worker.

    Attributes:
        worker: Its id.
        models: Names of what it serves.
        supervisor: Of the gateway's own worker; else None.
        totals: As all processes see it.
        engines: As it told last.
        reported: Unix seconds when it told that; None: never.
        error: Why it did not tell anything in the last sample; None: it did.
    """

    worker: WorkerId
    models: tuple[str, ...] = ()
    supervisor: SupervisorFacts | None = None
    totals: WorkerTotals = field(default_factory=WorkerTotals)
    engines: tuple[EngineReport, ...] = ()
    reported: float | None = None
    error: str | None = None


def build_page(
    intervals: Sequence[Interval],
    workers: Iterable[WorkerView],
    *,
    every_seconds: float,
    links: Links,
) -> Json:
    """Build everything but the time of day.

    Args:
        intervals: Oldest first.
        workers: All that it knows.
        every_seconds: Between two samples.
        links: To show.
    """
    return {
        "every_seconds": every_seconds,
        "version": __version__,
        "times": [one.at for one in intervals],
        "series": _series(intervals),
        "gaps": _gaps(intervals),
        "workers": [_worker(worker) for worker in workers],
        "links": asdict(links),
    }


def _series(intervals: Sequence[Interval]) -> Json:
    def by_source(of: Callable[[Interval], Mapping[str, float]]) -> Json:
        known = {name for one in intervals for name in one.drafted_per_second}
        return {name: [of(one).get(name) for one in intervals] for name in SOURCES if name in known}

    return {
        "tokens_per_second": [one.tokens_per_second for one in intervals],
        "requests_per_second": [one.requests_per_second for one in intervals],
        "active": [one.active for one in intervals],
        "queue": [one.queue for one in intervals],
        "ttft_p50": [one.first_token.p50 for one in intervals],
        "ttft_p99": [one.first_token.p99 for one in intervals],
        "gap_raw_p50": [one.raw_gaps.p50 for one in intervals],
        "gap_raw_p99": [one.raw_gaps.p99 for one in intervals],
        "gap_paced_p50": [one.paced_gaps.p50 for one in intervals],
        "gap_paced_p99": [one.paced_gaps.p99 for one in intervals],
        "price": [one.price for one in intervals],
        "drafted_per_second": by_source(lambda one: one.drafted_per_second),
        "acceptance": by_source(lambda one: one.acceptance),
    }


def _gaps(intervals: Sequence[Interval]) -> Json:
    """The gaps of all intervals, by bucket."""

    def added_up(distributions: Iterable[Distribution]) -> list[int]:
        columns = zip(*(one.counts for one in distributions), strict=True)
        return [int(sum(column)) for column in columns]

    return {
        "bounds_seconds": intervals[0].raw_gaps.distribution.bounds if intervals else [],
        "raw": added_up(one.raw_gaps.distribution for one in intervals),
        "paced": added_up(one.paced_gaps.distribution for one in intervals),
    }


def _worker(view: WorkerView) -> Json:
    return {
        "worker": view.worker,
        **asdict(view.totals),
        "models": view.models,
        "supervisor": None if view.supervisor is None else asdict(view.supervisor),
        "error": view.error,
        "reported": view.reported,
        "engines": [engine.model_dump(mode="json") for engine in view.engines],
    }
