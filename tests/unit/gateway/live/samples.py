"""Samples for the tests of `live`."""

from collections.abc import Mapping

from gateway.live.history import DraftTotals, Sample
from gateway.telemetry import Distribution, Totals
from gateway.types import WorkerId

BOUNDS = (0.01, 0.1)
W = WorkerId("w")


def distribution(*counts: float) -> Distribution:
    return Distribution(BOUNDS, counts or (0, 0, 0))


def totals(
    *,
    tokens: float = 0,
    requests: float = 0,
    active: int = 0,
    queued: int = 0,
    first: Distribution | None = None,
    raw: Distribution | None = None,
    paced: Distribution | None = None,
) -> Totals:
    nothing = distribution()
    return Totals(
        requests=requests,
        tokens=tokens,
        active=active,
        queued=queued,
        first_token=first or nothing,
        raw_gaps=raw or nothing,
        paced_gaps=paced or nothing,
        workers={},
    )


def sample(
    clock: float,
    of: Totals | None = None,
    *,
    prices: tuple[float, ...] = (),
    drafts: Mapping[tuple[WorkerId, int, str], tuple[int, int]] | None = None,
) -> Sample:
    """At `clock` seconds on both clocks; drafts are (drafted, accepted)."""
    counted = {key: DraftTotals(*counts) for key, counts in (drafts or {}).items()}
    return Sample(1000.0 + clock, clock, of or totals(), prices, counted)
