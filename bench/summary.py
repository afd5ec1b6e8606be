"""A figure over the rounds of a benchmark, and its place in the JSON line."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Summary:
    """A figure over the rounds.

    Attributes:
        median: None when no round gave a value.
        spread: Least and greatest.
    """

    median: float | None
    spread: tuple[float, float] | None


def summary_of(values: Sequence[float]) -> Summary:
    """Median and spread of one value for each round."""
    if not values:
        return Summary(median=None, spread=None)
    return Summary(median=statistics.median(values), spread=(min(values), max(values)))


def put_summary(found: Json, name: str, summary: Summary) -> None:
    """Add a figure and its spread."""
    found[name] = rounded(summary.median)
    spread = summary.spread
    found[f"{name}_spread"] = None if spread is None else [rounded(end) for end in spread]


def rounded(value: float | None) -> float | None:
    """As many digits as mean anything."""
    return None if value is None else round(value, 4)
