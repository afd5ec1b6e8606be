"""Is sampled text what the target would sample? A running test with a known rate of false alarms.

If a token is sampled from probabilities p, then u = (sum of p over the tokens before it in some
order) + v p(token), with v drawn from [0, 1), is uniform: the randomised probability integral
transform. The drafted token comes first in our order. So u < p(draft) says that it was accepted,
which has to happen as often as p(draft) says, and the rest tests what replaces refused tokens.
docs/adr/0046 has the reasons, and what the test can find.
"""

import math

import numpy as np
from numpy.typing import NDArray

BINS = 10
CHECK_EVERY = 8
"""Steps from one check to the next."""

_BETS = tuple((waves, size) for waves in (1, 2) for size in (-0.9, -0.3, -0.1, 0.1, 0.3, 0.9))


class UniformTest:
    """Bets against uniformity; what the bets have made of 1 is the evidence.

    Each bet multiplies its stake by 1 + size cos(waves pi u), whose mean is 1 if u is uniform. So
    evidence that ever exceeds e has probability 1/e at most, however often it is looked at (Ville's
    inequality). One wave finds u that are too small or large, two find too many in the middle or at
    the ends.

    Attributes:
        counts: Values in each tenth of [0, 1].
    """

    def __init__(self) -> None:
        self.counts = [0] * BINS
        self._logs = [0.0] * len(_BETS)

    def add(self, value: float) -> None:
        """Take in a value, 0 to 1."""
        self.counts[min(BINS - 1, int(value * BINS))] += 1
        for at, (waves, size) in enumerate(_BETS):
            self._logs[at] += math.log1p(size * math.cos(waves * math.pi * value))

    @property
    def evidence(self) -> float:
        """Decimal logarithm of the evidence; below 0 there is none."""
        most = max(self._logs)
        mean = sum(math.exp(one - most) for one in self._logs) / len(self._logs)
        return (most + math.log(mean)) / math.log(10.0)


def place_of(
    probabilities: NDArray[np.float32], *, draft: int, token: int, fraction: float
) -> float:
    """Return the transform of a sampled token.

    Args:
        probabilities: Of all tokens under the target, [vocabulary].
        draft: The token that was drafted here.
        token: The token that came.
        fraction: Drawn from [0, 1).
    """
    first = float(probabilities[draft])
    if token == draft:
        return fraction * first
    before = float(probabilities[:token].sum(dtype=np.float64)) - (first if draft < token else 0.0)
    return min(1.0, first + before + fraction * float(probabilities[token]))
