"""The latest samples, and what happened between them; pure."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from gateway.telemetry import Distribution, Totals
from gateway.types import WorkerId

MOST = 180
"""Intervals that are kept."""

SOURCES = ("suffix", "head", "native")
"""All sources of drafts, in the order in which they are shown."""

DraftKey = tuple[WorkerId, int, str]
"""Worker, engine, source."""


@dataclass(frozen=True, slots=True)
class DraftTotals:
    """Draft tokens of a source since its worker started: verified, and accepted."""

    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What was known at one time.

    Attributes:
        at: Unix seconds.
        clock: Monotonic seconds.
        totals: Of the gateway.
        prices: Of all engines that told theirs.
        drafts: Of all engines that told them.
    """

    at: float
    clock: float
    totals: Totals
    prices: tuple[float, ...] = ()
    drafts: Mapping[DraftKey, DraftTotals] | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """Some times within an interval, in seconds.

    Attributes:
        p50, p99: Quantiles; None if there were none.
        distribution: All of them.
    """

    p50: float | None
    p99: float | None
    distribution: Distribution


@dataclass(frozen=True, slots=True)
class Interval:
    """What happened between two samples; numbers are rounded.

    Attributes:
        at: Its end, in Unix seconds.
        tokens_per_second, requests_per_second: Generated, and ended.
        active, queue: Requests at its end.
        first_token, raw_gaps, paced_gaps: As in `Totals`.
        price: Median of the engines at its end; None if none told it.
        drafted_per_second: By source, of the engines that told it at both ends.
        acceptance: Accepted over drafted tokens, by source that drafted.
    """

    at: float
    tokens_per_second: float
    requests_per_second: float
    active: int
    queue: int
    first_token: Times
    raw_gaps: Times
    paced_gaps: Times
    price: float | None
    drafted_per_second: Mapping[str, float]
    acceptance: Mapping[str, float]


class History:
    """The latest intervals, oldest first."""

    def __init__(self) -> None:
        self._last: Sample | None = None
        self._intervals: deque[Interval] = deque(maxlen=MOST)

    def add(self, sample: Sample) -> None:
        """Take a sample; with the one before it, it makes an interval."""
        last, self._last = self._last, sample
        if last is not None:
            self._intervals.append(between(last, sample))

    def __iter__(self) -> Iterator[Interval]:
        return iter(self._intervals)


def between(first: Sample, second: Sample) -> Interval:
    """Compute what happened between two samples, of which `second` is later."""
    seconds = second.clock - first.clock
    then, now = first.totals, second.totals
    drafts = _drafts(first.drafts or {}, second.drafts or {})
    return Interval(
        at=second.at,
        tokens_per_second=round(max(0.0, now.tokens - then.tokens) / seconds, 3),
        requests_per_second=round(max(0.0, now.requests - then.requests) / seconds, 3),
        active=now.active,
        queue=now.queued,
        first_token=_times(then.first_token, now.first_token),
        raw_gaps=_times(then.raw_gaps, now.raw_gaps),
        paced_gaps=_times(then.paced_gaps, now.paced_gaps),
        price=median(second.prices) if second.prices else None,
        drafted_per_second={name: round(new.drafted / seconds, 3) for name, new in drafts.items()},
        acceptance={
            name: round(new.accepted / new.drafted, 4)
            for name, new in drafts.items()
            if new.drafted
        },
    )


def _times(first: Distribution, second: Distribution) -> Times:
    between = second.since(first)
    p50, p99 = between.quantile(0.5), between.quantile(0.99)
    return Times(
        None if p50 is None else round(p50, 6), None if p99 is None else round(p99, 6), between
    )


def _drafts(
    first: Mapping[DraftKey, DraftTotals], second: Mapping[DraftKey, DraftTotals]
) -> dict[str, DraftTotals]:
    """What each source drafted in between, at the engines that told it both times.

    Without sources that have never drafted.
    """
    found: dict[str, DraftTotals] = {}
    for key, now in second.items():
        then = first.get(key)
        if then is None or not now.drafted:
            continue
        if now.drafted < then.drafted:
            then = DraftTotals(0, 0)  # the worker was restarted
        before = found.get(key[2], DraftTotals(0, 0))
        found[key[2]] = DraftTotals(
            before.drafted + now.drafted - then.drafted,
            before.accepted + now.accepted - then.accepted,
        )
    return found
