"""A bounded sequential test: is a challenger worth more than what it would replace?

It is given differences of worth at the same places, in the order in which they come.
"""

import math
from enum import StrEnum

_BATCH = 8
"""Differences that are averaged first, since neighbours in a text resemble each other."""

_LOOKS = 5
_BATCHES_OF_LOOK = 32
_BOUND = 2.75
"""Pocock's bound for five looks is 2.413 with a known variance; 32 batches only estimate it.

Source: S. J. Pocock, Group sequential methods, Biometrika 64 (1977), table 1.
"""

MOST_PAIRS = _LOOKS * _BATCHES_OF_LOOK * _BATCH
"""The test ends after so many differences."""

ERROR_RATE = 0.025
"""It takes a challenger that is worth no more for a better one at most so often."""


class Verdict(StrEnum):
    """What a test has found of the challenger."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"


class Contest:
    """Looks at the mean difference after 256 pairs, and again up to `MOST_PAIRS`.

    Attributes:
        pairs: Differences so far.
        verdict: None until the test has ended.
    """

    def __init__(self) -> None:
        self.pairs = 0
        self.verdict: Verdict | None = None
        self._batch = 0.0
        self._sum = 0.0
        self._squares = 0.0

    @property
    def mean(self) -> float:
        """The mean difference over whole batches; positive if the challenger is worth more."""
        batches = self.pairs // _BATCH
        return self._sum / batches if batches else 0.0

    @property
    def score(self) -> float:
        """The mean over its standard error; 0 without evidence."""
        batches = self.pairs // _BATCH
        if batches < _BATCHES_OF_LOOK:
            return 0.0
        mean = self._sum / batches
        variance = max(0.0, self._squares / batches - mean * mean) / (batches - 1)
        if variance == 0.0:
            return math.copysign(math.inf, mean) if mean else 0.0
        return mean / math.sqrt(variance)

    def add(self, difference: float) -> None:
        """Take in worth of the challenger minus that of the other; ignored after the verdict."""
        if self.verdict is not None:
            return
        self.pairs += 1
        self._batch += difference
        if self.pairs % _BATCH == 0:
            mean, self._batch = self._batch / _BATCH, 0.0
            self._sum += mean
            self._squares += mean * mean
            if self.pairs % (_BATCH * _BATCHES_OF_LOOK) == 0:
                self.verdict = self._look()

    def _look(self) -> Verdict | None:
        if self.score >= _BOUND:
            return Verdict.BETTER
        if self.score <= -_BOUND:
            return Verdict.WORSE
        return Verdict.UNDECIDED if self.pairs >= MOST_PAIRS else None
