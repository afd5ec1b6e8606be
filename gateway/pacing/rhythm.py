"""A stream's own rhythm: how fast its tokens come, and how unevenly.

Pure: `after` returns the rhythm with one more arrival and leaves the old one as it was.
"""

from math import exp
from typing import NamedTuple

_MEMORY_SECONDS = 1.0
"""Arrivals count with weights that fall to 1/e in that time."""
_UNEVEN_SECONDS = 2.0
"""So long a stream counts as uneven after it was, so that its buffer stays for the next burst."""
_STALL_GAPS = 3.0
"""A gap of more than so many usual ones is a stall: it says nothing of the stream's rate."""
_EYE_SECONDS = 1 / 30
"""Text that appears at once, and would have taken less to read out, appears smoothly to an eye."""
_UNEVEN_SHARE = 0.5
"""Text that comes early or late by more than this part of a usual gap comes unevenly."""
_RECENT = 0.75
"""Early and late are told by the last few arrivals, each counting so much of the next one: a stream
that only becomes faster or slower comes evenly."""
_JITTER_SECONDS = 0.003
"""Early or late by less is the network's doing, whatever the gap."""


class Rhythm(NamedTuple):
    """What the arrivals of one stream say; a new stream's is `Rhythm()`.

    Attributes:
        last_seconds: Clock at the latest arrival; None before the first.
        last_tokens: How many it brought.
        tokens: All that came after the first arrival, the recent ones counting more.
        seconds: The time that they took, weighted the same.
        arrivals: How many arrivals they were, weighted the same.
        recent_tokens: Those of the last few arrivals.
        recent_seconds: The time that they took.
        is_even: Pacing would change nothing that a reader sees.
        uneven_seconds: When that was last otherwise; None if never.
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
        """The stream's own rate; None while it cannot be told."""
        return self.tokens / self.seconds if self.tokens > 0 and self.seconds > 0 else None

    def after(self, tokens: int, now: float) -> "Rhythm":
        """The rhythm once `tokens` (>= 0) more came at `now` (seconds); the clock may jump."""
        if tokens == 0:
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
