"""How long a step takes, by the tokens that it verifies."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from engine.policy._core import Marginals


class StepCost:
    """A convex curve of step time over verified tokens, in steps of one token.

    Straight between the given points, and beyond the last one with the last slope. Where the points
    are not convex the curve runs below them: each token then costs at least what the one before
    did, so that the cheapest tokens can be bought one by one.

    Args:
        points: (tokens verified, time), the first at one token; tokens rise, times do not fall.
            The unit of time cancels out.
        longest: Most tokens that are ever asked about.

    Attributes:
        marginals: What each further token adds; all of the curve, for C++.

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
        hull = _lower_hull([(x, time / times[0]) for x, time in zip(at, times, strict=True)])
        slopes = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in pairwise(hull)] or [0.0]
        # added[n]: what token n + 1 adds to a step of n tokens; added[0] is never asked for.
        added = [
            slopes[min(bisect_right([x for x, _ in hull[1:]], n), len(slopes) - 1)]
            for n in range(longest + 1)
        ]
        self.marginals = Marginals(added)

    def time(self, tokens: int) -> float:
        """Return the time of a step that verifies so many tokens; 1 is a step of one token."""
        return self.marginals.time(tokens)

    def marginal(self, tokens: int) -> float:
        """Return what one token more adds to a step of so many."""
        return self.marginals.at(tokens)

    def settle(self, drafts: Sequence[Sequence[float]], tokens: int, worth: float) -> float | None:
        """Buy tokens for a step of so many: `Marginals.settle` at this curve's marginals."""
        return self.marginals.settle(drafts, tokens, worth)


def _lower_hull(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points on the largest convex curve below all of them (Andrew's monotone chain)."""
    kept: list[tuple[float, float]] = []
    for x, y in points:
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2:]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            kept.pop()
        kept.append((x, y))
    return kept
