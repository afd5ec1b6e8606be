"""The part of `GET /live` that `specgate top` shows, and some arithmetic on it; pure."""

from collections.abc import Sequence
from itertools import pairwise

from pydantic import BaseModel

from gateway.live import EngineReport
from gateway.supervisor import SupervisorFacts

Values = Sequence[float | None]


class Series(BaseModel):
    """Values at the page's times; None where nothing was known."""

    tokens_per_second: list[float]
    requests_per_second: list[float]
    active: list[int]
    queue: list[int]
    ttft_p50: list[float | None]
    ttft_p99: list[float | None]
    gap_raw_p50: list[float | None]
    gap_raw_p99: list[float | None]
    gap_paced_p50: list[float | None]
    gap_paced_p99: list[float | None]
    price: list[float | None]
    drafted_per_second: dict[str, list[float | None]]
    acceptance: dict[str, list[float | None]]


class Worker(BaseModel):
    """One worker."""

    worker: str
    up: bool
    ejected: bool
    ejections: int
    in_flight: int
    models: list[str]
    supervisor: SupervisorFacts | None
    error: str | None
    engines: list[EngineReport]


class Page(BaseModel):
    """What the gateway answered."""

    now: float
    every_seconds: float
    version: str
    times: list[float]
    series: Series
    workers: list[Worker]


def latest(values: Values) -> float | None:
    """The last value; None if it is not known, or there is none."""
    return values[-1] if values else None


def last_known(values: Values) -> float | None:
    """The last value that is known."""
    return next((value for value in reversed(values) if value is not None), None)


def recent_acceptance(
    drafted_per_second: Values, acceptance: Values, *, last: int
) -> tuple[float, float | None]:
    """Drafted tokens a second, and their accepted share, in the last intervals.

    Args:
        drafted_per_second: By interval.
        acceptance: By interval, 0 to 1.
        last: How many intervals.
    """
    pairs = list(zip(drafted_per_second, acceptance, strict=True))[-last:]
    drafted = [rate for rate, _ in pairs if rate is not None]
    accepted = sum(rate * share for rate, share in pairs if rate and share is not None)
    total = sum(drafted)
    return total / max(1, len(drafted)), accepted / total if total else None


def fit(values: Values, width: int) -> list[float | None]:
    """Bring values to at most `width`: the mean of those that are known in each part."""
    if width <= 0:
        return []
    if len(values) <= width:
        return list(values)
    borders = [round(at * len(values) / width) for at in range(width + 1)]
    parts = (values[start:end] for start, end in pairwise(borders))
    return [_mean([value for value in part if value is not None]) for part in parts]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
