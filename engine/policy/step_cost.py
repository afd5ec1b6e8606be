"""How long a step takes, by the tokens that it verifies."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


class StepCost:
    """A convex curve of step time over verified tokens, in steps of one token.

    Straight between the given points, and beyond the last one with the last slope. Where the points
    are not convex the curve runs below them: each token then costs at least what the one before
    did, so that the cheapest tokens can be bought one by one.

    Args:
        points: (tokens verified, time), the first at one token; tokens rise, times do not fall.
            The unit of time cancels out.
        longest: Most tokens that are ever asked about.

    Raises:
        ValueError: The points are not as described.
    """

    def __init__(self, points: Sequence[tuple[int, float]], *, longest: int) -> None:
        at = [float(tokens) for tokens, _ in points]
        times = [time for _, time in points]
        if not points or points[0][0] != 1 or times[0] <= 0:
            raise ValueError("must begin with the time of a step of one token, above 0")
        if any(a >= b for a, b in pairwise(at)):
            raise ValueError("tokens must rise")
        if any(a > b for a, b in pairwise(times)):
            raise ValueError("times must not fall")
        hull_at, hull_times = _lower_hull(at, [time / times[0] for time in times])
        slopes = np.diff(hull_times) / np.diff(hull_at) if len(hull_at) > 1 else np.zeros(1)
        tokens = np.arange(1, longest + 1, dtype=np.float64)
        piece = np.clip(np.searchsorted(hull_at, tokens, side="left") - 1, 0, len(slopes) - 1)
        # _marginal[n]: what token n + 1 adds to a step of n tokens.
        self._marginal: NDArray[np.float64] = np.append(slopes[piece][1:], slopes[-1])
        self._time = 1.0 + np.concatenate(([0.0], np.cumsum(self._marginal[:-1])))

    def time(self, tokens: int) -> float:
        """Return the time of a step that verifies so many tokens; 1 is a step of one token."""
        over = max(0, tokens - len(self._time))
        return float(self._time[max(0, tokens - 1 - over)] + over * self._marginal[-1])

    def marginal(self, tokens: int, more: int) -> NDArray[np.float64]:
        """Return what each of `more` tokens adds to a step of `tokens`; shape (more,), rising."""
        added = self._marginal[tokens - 1 : tokens - 1 + more]
        if len(added) == more:
            return added
        return np.append(added, np.full(more - len(added), self._marginal[-1]))


def _lower_hull(
    at: Sequence[float], times: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The points on the largest convex curve below all of them (Andrew's monotone chain)."""
    kept: list[tuple[float, float]] = []
    for x, y in zip(at, times, strict=True):
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2:]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            kept.pop()
        kept.append((x, y))
    return np.array([x for x, _ in kept]), np.array([y for _, y in kept])
