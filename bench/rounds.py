"""Alternating rounds: whose turn it is, and what a figure amounts to over all of them."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Json = dict[str, Any]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Summary:
    """A figure over the rounds: median, least and greatest."""

    median: float
    low: float
    high: float

    def as_json(self) -> Json:
        """The figure and its spread, nested."""
        return {"median": self.median, "spread": [self.low, self.high]}


def summary_of(values: Sequence[float]) -> Summary | None:
    """Median and spread of one value for each round; None when no round gave one."""
    if not values:
        return None
    return Summary(statistics.median(values), min(values), max(values))


def ratios_of(ours: Iterable[float], theirs: Iterable[float]) -> list[float]:
    """Divide round by round, so that a slow minute of the machine affects both sides."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def put_summary(found: Json, name: str, summary: Summary | None) -> None:
    """Add a figure and its spread to the JSON line."""
    found[name] = None if summary is None else summary.median
    found[f"{name}_spread"] = None if summary is None else [summary.low, summary.high]


def rotated(items: Iterable[Item], number: int) -> list[Item]:
    """Let another one be the first in each round."""
    every = list(items)
    begin = number % len(every)
    return every[begin:] + every[:begin]


def rounded(value: object) -> object:
    """Round all fractions of a JSON line: four decimals, from 1,000 on none; NaN becomes null."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(inner) for inner in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return round(value, 4) if abs(value) < 1000 else round(value)
    return value
