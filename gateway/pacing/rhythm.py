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
        is_even: Pacing would change nothing that a reader sees.
        uneven_seconds: When that was last otherwise; None if never.
    """

    last_seconds: float | None = None
    last_tokens: int = 0
    tokens: float = 0.0
    seconds: float = 0.0
    arrivals: float = 0.0
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
        if self.last_seconds is None:
            return self._replace(last_seconds=now, last_tokens=tokens)
        gap = max(0.0, now - self.last_seconds)
        usual = self.seconds / self.arrivals if self.arrivals else gap
        counted = min(gap, _STALL_GAPS * usual + _EYE_SECONDS)
        fade = exp(-counted / _MEMORY_SECONDS)
        sum_tokens = self.tokens * fade + tokens
        seconds = self.seconds * fade + counted
        arrivals = self.arrivals * fade + 1.0
        uneven = self.uneven_seconds
        per_token, usual = seconds / sum_tokens, seconds / arrivals
        off = abs(self.last_tokens * per_token - gap) if counted == gap else 0.0
        if off > max(_JITTER_SECONDS, _UNEVEN_SHARE * usual) or (
            tokens > 1 and tokens * per_token > _EYE_SECONDS
        ):
            uneven = now
        even = uneven is None or not uneven - _UNEVEN_SECONDS < now < uneven + _UNEVEN_SECONDS
        return Rhythm(now, tokens, sum_tokens, seconds, arrivals, even, uneven)
