"""Numbers of which the least is found fast, while one after another changes."""

from math import inf

_TOGETHER = 16


class Least:
    """Numbers by position; infinity stands for none.

    They lie in groups of 16, of which the least is kept. So of 256 numbers 32 are looked at in all,
    for a change and to find the least.
    """

    def __init__(self) -> None:
        self._numbers: list[float] = []
        self._groups: list[float] = []

    def append(self) -> None:
        """Add a position, which holds infinity."""
        self._numbers.append(inf)
        if len(self._groups) * _TOGETHER < len(self._numbers):
            self._groups.append(inf)

    def __getitem__(self, position: int) -> float:
        return self._numbers[position]

    def __setitem__(self, position: int, number: float) -> None:
        self._numbers[position] = number
        group = position // _TOGETHER
        self._groups[group] = min(self._numbers[group * _TOGETHER : (group + 1) * _TOGETHER])

    def least(self) -> int | None:
        """The first position of the least number; None if all are infinite."""
        least = min(self._groups, default=inf)
        if least == inf:
            return None
        begin = self._groups.index(least) * _TOGETHER
        return self._numbers.index(least, begin)
