"""How many steps after a shift a rule takes to reach its new level."""

import numpy as np

from engine.simulation.arrays import Floats
from engine.simulation.course import Course
from engine.simulation.engine import Record

WINDOW = 10
"""Steps of a window."""
_TOLERANCE = 0.02
_NOISE = 3.0


def steps_to_recover(ours: Record, oracle: Record, course: Course) -> list[int]:
    """Return for each stage after a shift the steps until a rule is back at its level.

    Its speed in a window of `WINDOW` steps, over all seeds, is divided by the oracle's in the same
    window, since a shift changes what is possible. It is back in the first window in which that
    ratio is at most 2 % (or three standard deviations, if that is more) below its level; steps
    count from the shift to the start of that window. The level is the mean of the second half of
    the stage, or that of an earlier stage with the same conditions if it was higher. A stage in
    which the rule never gets back counts in full.

    Args:
        ours: The rule's run.
        oracle: The oracle's, through the same course.
        course: The conditions of both runs.
    """
    found = []
    levels: dict[int, float] = {}
    ends = course.ends.tolist()
    for begin, end, condition in zip([0, *ends], ends, course.condition.tolist(), strict=False):
        relative = _relative(ours, oracle, begin, end)
        settled = relative[len(relative) // 2 :]
        level = max(float(settled.mean()), levels.get(condition, 0.0))
        levels[condition] = level
        allowed = max(_TOLERANCE, _NOISE * float(settled.std()))
        back = np.flatnonzero(relative >= level - allowed)
        found.append(int(back[0]) if len(back) else len(relative) + WINDOW - 1)
    return found[1:]


def _relative(ours: Record, oracle: Record, begin: int, end: int) -> Floats:
    mine, theirs = (_speeds(record, begin, end) for record in (ours, oracle))
    shared = min(len(mine), len(theirs))
    return np.asarray(mine[:shared] / theirs[:shared])


def _speeds(record: Record, begin: int, end: int) -> Floats:
    """Of each window of a stage, all seeds together.

    Each seed's steps are counted from its own shift, up to where the first seed is through.
    """
    inside = (record.before >= begin) & (record.before < end)
    first, count = inside.argmax(axis=0), int(inside.sum(axis=0).min())
    steps = first + np.arange(count)[:, None]
    tokens, seconds = (
        np.lib.stride_tricks.sliding_window_view(
            np.take_along_axis(part, steps, axis=0).sum(axis=1), WINDOW
        ).sum(axis=1)
        for part in (record.tokens, record.request_seconds)
    )
    return np.asarray(tokens / seconds)
