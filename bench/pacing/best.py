"""The smoothest release of a stream within the bound, with knowledge of the future. Pure.

It is the limit for pacing: a stall that is longer than the bound cannot be filled.
"""

import numpy as np

from bench.pacing.figures import Gaps, Played, Values, gaps_of
from bench.pacing.plan import BOUND_MS, END_MS


def best_gaps(played: Played) -> Gaps:
    """The gaps of the smoothest release of a stream's tokens.

    The first token leaves when it comes, every other one not before it comes and not after the
    bound, and the last one not after the bound on the end.
    """
    came_ms = (played.sent_ns[played.pattern.chunk_of_token] - played.sent_ns[0]) / 1e6
    least, most = came_ms, came_ms + BOUND_MS
    most[0], most[-1] = least[0], least[-1] + END_MS
    most = np.minimum.accumulate(most[::-1])[::-1]  # nothing overtakes
    released_ns = (taut(least, most) * 1e6).astype(np.int64)
    tokens = np.arange(1, len(released_ns) + 1).astype(float)
    return gaps_of(released_ns, tokens, played.pattern.token_ends)


def taut(least: Values, most: Values) -> Values:
    """The shortest line between two others: of all that fit between, its slopes vary least.

    Args:
        least: Lower line, one value for each step, never falling; shape (steps,).
        most: Upper line, same shape, nowhere below; the same as `least` at the first step.

    Returns:
        The values of the line at every step; same shape. It ends on the lower line or on the
        upper one where that is on its way, else straight ahead.

    Cost: quadratic in the steps between two bends.
    """
    found = np.array(least, float)
    at = 0
    while at < len(least) - 1:
        at = _straight(found, least, most, at)
    return found


def _straight(found: Values, least: Values, most: Values, begin: int) -> int:
    """Fill in the line from `begin` to its next bend; returns where that is."""
    origin = found[begin]
    low, high = -np.inf, np.inf
    low_at = high_at = begin
    for at in range(begin + 1, len(least)):
        steps = at - begin
        lower, upper = (least[at] - origin) / steps, (most[at] - origin) / steps
        if lower > high:  # the lower line rises above: bend at the upper one, where it is tight
            return _fill(found, begin, high_at, high)
        if upper < low:
            return _fill(found, begin, low_at, low)
        if lower >= low:
            low, low_at = lower, at
        if upper <= high:
            high, high_at = upper, at
    # Both ends are in sight: the latest release that the last step allows is the straightest.
    return _fill(found, begin, len(least) - 1, min(high, max(low, _mean_slope(found, begin))))


def _fill(found: Values, begin: int, end: int, slope: float) -> int:
    found[begin : end + 1] = found[begin] + slope * np.arange(end - begin + 1)
    return end


def _mean_slope(found: Values, begin: int) -> float:
    return float(found[begin] - found[0]) / begin if begin else 0.0
