"""How many workers a group of prompts needs: those that open alike, with the same system prompt."""

from collections import OrderedDict
from math import ceil

_MOST = 65536
_GROWTH = 1.0002
"""A request counts e times as much as one that came 5,000 requests before. With 1,000, replicas
see shares that differ by chance, and disagree (adr/0047)."""
_LARGE = 1e100


class Groups:
    """The shares of groups in the latest requests."""

    def __init__(self) -> None:
        self._amounts: OrderedDict[int, float] = OrderedDict()
        self._total = 1.0
        self._weight = 1.0

    def note(self, group: int, amount: float) -> None:
        """A request of a group came; `amount` of work, in any unit."""
        self._weight *= _GROWTH
        added = self._weight * amount
        self._amounts[group] = self._amounts.pop(group, 0.0) + added
        self._total += added
        if len(self._amounts) > _MOST:
            self._amounts.popitem(last=False)
        if self._weight > _LARGE:
            self._amounts = OrderedDict((name, old / _LARGE) for name, old in self._amounts.items())
            self._total /= _LARGE
            self._weight /= _LARGE

    def size(self, group: int, workers: float) -> int:
        """The group's share of `workers`: a power of two, so that replicas seldom differ in it."""
        least = ceil(self._amounts.get(group, 0.0) / self._total * workers)
        return 1 << max(0, least - 1).bit_length()
