"""Proven lower bounds of p99 over median of the gaps in any release of a stream. Pure.

A release can lower this ratio and still be worse: if it sends nearly half of the tokens at once, in
heaps, the median becomes the gap of the others. So there is a second bound, for releases without.
"""

import math

import numpy as np

from bench.pacing.figures import Played, Values
from bench.pacing.reach import ROUNDED, Stream, is_reachable, most_fast, stream_of

_STEP = 1.02
_STEPS = 400
_PRECISION = 1.01


def least_ratio(played: Played) -> float:
    """No release has a lower ratio.

    Returns:
        At least 1, which every release has; at most the worker's own.
    """
    stream = stream_of(played)
    # More than half of the tokens have a gap of the median or a longer one.
    slower = stream.least_gaps - most_fast(stream.least_gaps)
    return _least_ratio(stream, _worker_ratio(played), most_median_us=_share(stream, slower))


def least_ratio_unheaped(played: Played) -> float:
    """No release has a lower ratio whose median is not above its mean.

    A release can change the mean only by as much as the end may be late. If most tokens are slower
    than the mean, the others come in heaps.

    Returns:
        At least 1, and at most the worker's own: releases that are worse were not looked at.
    """
    stream = stream_of(played)
    most = _share(stream, stream.least_gaps)
    return _least_ratio(stream, _worker_ratio(played), most_median_us=most)


def _worker_ratio(played: Played) -> float:
    return played.worker_gaps().ratio("token") or 1.0


def _share(stream: Stream, tokens: int) -> float:
    return stream.most_us[-1] / max(1, tokens)


def _least_ratio(stream: Stream, most_ratio: float, *, most_median_us: float) -> float:
    """Bisect; for each ratio the p99 can lie between any two steps of a scale."""
    least, most = 1.0, most_ratio
    p99_us: Values = most_ratio * most_median_us * np.power(_STEP, -np.arange(float(_STEPS)))
    p99_us = p99_us[is_reachable(stream, np.zeros(_STEPS), p99_us)]
    if len(p99_us) == _STEPS:  # it may be below the scale
        return least
    while most > least * _PRECISION:
        ratio = math.sqrt(least * most)
        median_us = p99_us / _STEP / ratio
        found = median_us <= most_median_us * (1 + ROUNDED)
        found[found] = is_reachable(stream, median_us[found], p99_us[found])
        if found.any():
            most, p99_us = ratio, p99_us[found]
        else:
            least = ratio
    return least
