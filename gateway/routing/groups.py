"""Prompts that open alike are a group. A group's share of the requests decides its workers."""

from collections import OrderedDict
from math import ceil

_MOST_GROUPS = 65536
_GROWTH = 1.001
"""A request counts e times as much as one that came 1,000 requests before."""
_LARGE = 1e100


class Groups:
    """Shares of groups in the latest requests."""

    def __init__(self) -> None:
        self._weights: OrderedDict[int, float] = OrderedDict()
        self._total = 1.0
        self._weight = 1.0

    def note(self, group: int, amount: float) -> None:
        """A request of a group came, with `amount` of work."""
        weights = self._weights
        self._weight *= _GROWTH
        added = self._weight * amount
        weights[group] = weights.pop(group, 0.0) + added
        self._total += added
        if len(weights) > _MOST_GROUPS:
            weights.popitem(last=False)
        if self._weight > _LARGE:
            for name in weights:
                weights[name] /= _LARGE
            self._total /= _LARGE
            self._weight /= _LARGE

    def size(self, group: int, workers: float) -> int:
        """How many of `workers` a group needs; at least 1."""
        return ceil(self._weights.get(group, 0.0) / self._total * workers) or 1
