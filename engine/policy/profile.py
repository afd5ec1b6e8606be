"""Assumed times of steps or head passes before anything is measured."""

from collections.abc import Sequence
from itertools import pairwise

Profile = Sequence[tuple[int, float]]
"""(tokens or sequences, time) in any unit of time, from 1 on."""


def check_profile(points: Profile) -> None:
    """Check a profile.

    Args:
        points: The first at 1 with a time above 0; tokens must rise, and times must not fall.

    Raises:
        ValueError: The points are not as described.
    """
    if not points or points[0][0] != 1 or points[0][1] <= 0:
        raise ValueError("must begin with the time of a step of one token, above 0")
    if any(a >= b for (a, _), (b, _) in pairwise(points)):
        raise ValueError("tokens must rise")
    if any(a > b for (_, a), (_, b) in pairwise(points)):
        raise ValueError("times must not fall")
