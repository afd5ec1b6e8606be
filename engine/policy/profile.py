"""What is believed of a machine before it was measured: times at some points."""

from collections.abc import Sequence
from itertools import pairwise

Profile = Sequence[tuple[int, float]]
"""(tokens or rows, time), rising from 1 on."""


def check_profile(points: Profile) -> None:
    """Refuse what is no profile.

    Args:
        points: The first at 1; tokens rise, times do not fall.

    Raises:
        ValueError: The points are not as described.
    """
    if not points or points[0][0] != 1 or points[0][1] <= 0:
        raise ValueError("must begin with the time of a step of one token, above 0")
    if any(a >= b for (a, _), (b, _) in pairwise(points)):
        raise ValueError("tokens must rise")
    if any(a > b for (_, a), (_, b) in pairwise(points)):
        raise ValueError("times must not fall")
