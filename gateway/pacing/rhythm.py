"""The rhythm of a stream: the rate of its tokens, and whether they come evenly.

Pure: `after` returns a new rhythm.
"""

from math import exp
from typing import NamedTuple

_MEMORY_SECONDS = 1.0
"""The weight of an arrival falls to 1/e in this time."""
_UNEVEN_SECONDS = 2.0
"""A stream counts as uneven for this long, which keeps its buffer for the next burst."""
_STALL_GAPS = 3.0
"""A gap longer than this many mean gaps is a stall, and says nothing about the stream's rate."""
_EYE_SECONDS = 1 / 30
"""A chunk that holds less than this much of the stream looks smooth when shown at once."""
_UNEVEN_SHARE = 0.5
"""A stream is uneven if text is early or late by more than this share of the mean gap."""
_RECENT = 0.75
"""Weight of an arrival relative to the next one, in the recent rate by which text is early or late.
A stream that only becomes faster or slower is even."""
_JITTER_SECONDS = 0.003
"""Smaller deviations are network jitter."""


class Rhythm(NamedTuple):
    """Statistics of a stream's arrivals; `Rhythm()` for a new stream.

    Attributes:
        last_seconds: Clock at the latest arrival; None before the first.
        last_tokens: Tokens in it.
        tokens: Weighted number of tokens since the first arrival.
        seconds: Weighted time in which they came.
        arrivals: Weighted number of arrivals.
        recent_tokens: Tokens of the last few arrivals.
        recent_seconds: Time in which they came.
        is_even: Smoothing would make no visible difference.
        uneven_seconds: Clock when it was last uneven; None if never.
    """

    last_seconds: float | None = None
    last_tokens: int = 0
    tokens: float = 0.0
    seconds: float = 0.0
    arrivals: float = 0.0
    recent_tokens: float = 0.0
    recent_seconds: float = 0.0
    is_even: bool = True
    uneven_seconds: float | None = None

    @property
    def tokens_per_second(self) -> float | None:
        """The stream's rate; None while unknown."""
        return self.tokens / self.seconds if self.tokens > 0 and self.seconds > 0 else None

    def after(self, tokens: int, now: float) -> "Rhythm":
        """The rhythm after `tokens` more at `now` (seconds); the clock may jump.

        `tokens` is negative where a worker has counted backwards: that tells nothing.
        """
        if tokens <= 0:
            return self
        last, last_tokens, sum_tokens, seconds, arrivals, recent, recent_seconds, _, uneven = self
        if last is None:
            return self._replace(last_seconds=now, last_tokens=tokens)
        gap = now - last if now > last else 0.0
        longest = _STALL_GAPS * (seconds / arrivals if arrivals else gap) + _EYE_SECONDS
        counted = gap if gap < longest else longest
        fade = exp(-counted / _MEMORY_SECONDS)
        sum_tokens = sum_tokens * fade + tokens
        seconds = seconds * fade + counted
        arrivals = arrivals * fade + 1.0
        off = 0.0
        if counted == gap:  # no stall
            recent = recent * _RECENT + tokens
            recent_seconds = recent_seconds * _RECENT + gap
            off = abs(last_tokens * recent_seconds / recent - gap)
        if (off > _JITTER_SECONDS and off > _UNEVEN_SHARE * seconds / arrivals) or (
            tokens > 1 and tokens * seconds / sum_tokens > _EYE_SECONDS
        ):
            uneven = now
        even = uneven is None or not uneven - _UNEVEN_SECONDS < now < uneven + _UNEVEN_SECONDS
        return Rhythm._make(
            (now, tokens, sum_tokens, seconds, arrivals, recent, recent_seconds, even, uneven)
        )
