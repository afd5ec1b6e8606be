"""A playout buffer: what came in bursts leaves evenly, and nothing waits longer than its bound.

Pure: the clock is an argument. Text leaves in proportion to what is held, as if all of it were to
leave within the usual delay; but hardly slower than the stream's own rate while there is any.
"""

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.pacing.rhythm import Rhythm

T = TypeVar("T")

_USUAL_SHARE = 0.6
"""Usual delay as a share of the bound: a deeper buffer is smoother, and the median has a limit."""
_LEAST_SHARE = 0.7
"""Least part of the stream's own rate; an empty buffer fills again because this is less than 1."""
_DRAINING_SHARE = 1.25
"""The same of a stream that has become even, whose buffer is to empty."""
_LATE_SECONDS = 0.010
"""Timers and loops are late by so much; text leaves when its bound is so near."""
_SOON_SECONDS = 0.001
"""To wait for less is not worth a timer."""
_LEAST_RATE = 1.0
"""Tokens a second; nothing is this slow, but to divide by a rate needs one."""


@dataclass(slots=True)
class Held(Generic[T]):
    """Some text that waits.

    Attributes:
        item: Whatever its owner needs to send it.
        tokens: How many tokens it is, >= 0.
        arrived_seconds: Clock at its arrival.
        is_open: It ends, or may end, within a character: a piece should not end here.
    """

    item: T
    tokens: int
    arrived_seconds: float
    is_open: bool = False


class Playout(Generic[T]):
    """The buffer of one stream; empty is false.

    Args:
        max_delay_seconds: Longest wait of anything in it.

    Attributes:
        tokens: How many are held.
    """

    __slots__ = ("_due_seconds", "_held", "_max_delay", "_now", "tokens")

    def __init__(self, *, max_delay_seconds: float) -> None:
        self._max_delay = max(0.0, max_delay_seconds - _LATE_SECONDS)
        self._held: deque[Held[T]] = deque()
        self._due_seconds = float("-inf")
        self._now = float("-inf")
        self.tokens = 0

    def __bool__(self) -> bool:
        """Whether anything is held."""
        return bool(self._held)

    @property
    def last(self) -> Held[T] | None:
        """What arrived last, if it is still held; its owner may say that it is open after all."""
        return self._held[-1] if self._held else None

    def hold(self, item: T, tokens: int, *, now: float, is_open: bool = False) -> None:
        """Put text behind what is held."""
        self._see(now)
        self._held.append(Held(item, tokens, now, is_open))
        self.tokens += tokens

    def wait_seconds(self, now: float) -> float | None:
        """How long until `release` has something; None while nothing is held."""
        self._see(now)
        if not self._held:
            return None
        bound = self._held[0].arrived_seconds + self._max_delay
        is_stuck = self._held[0].is_open and all(held.is_open for held in self._held)
        wait = (bound if is_stuck else min(self._due_seconds, bound)) - now
        return wait if wait > _SOON_SECONDS else 0.0

    def release(self, rhythm: Rhythm, now: float, *, piece_seconds: float) -> list[Held[T]]:
        """Take out the next piece, in order; empty before its time.

        Args:
            rhythm: The stream's own.
            now: Clock, seconds.
            piece_seconds: How much text leaves at once, in seconds of reading it.
        """
        self._see(now)
        if not self._held:
            return []
        rate = self._rate(rhythm, now)
        is_due = self._due_seconds - now <= _SOON_SECONDS
        wanted = max(1, round(rate * piece_seconds)) if is_due else 0
        overdue_seconds = now - self._max_delay + _SOON_SECONDS
        count = tokens = 0
        for number, held in enumerate(self._held, start=1):
            is_overdue = held.arrived_seconds <= overdue_seconds
            if tokens >= wanted and count == number - 1 and not is_overdue:
                break
            tokens += held.tokens
            if is_overdue or not held.is_open:
                count = number
        return self._take(count, rate, now)

    def release_all(self) -> list[Held[T]]:
        """Take out everything, in order."""
        taken = list(self._held)
        self._held.clear()
        self.tokens = 0
        return taken

    def _take(self, count: int, rate: float, now: float) -> list[Held[T]]:
        taken = [self._held.popleft() for _ in range(count)]
        if taken:
            tokens = sum(held.tokens for held in taken)
            self.tokens -= tokens
            # A timer that was late must not slow the stream down; a pause must not speed it up.
            is_in_time = now - self._due_seconds <= _LATE_SECONDS
            self._due_seconds = (self._due_seconds if is_in_time else now) + tokens / rate
        return taken

    def _rate(self, rhythm: Rhythm, now: float) -> float:
        """Tokens a second at which text should leave now."""
        rate = self.tokens / max(_SOON_SECONDS, _USUAL_SHARE * self._max_delay)
        share = _DRAINING_SHARE if rhythm.is_even else _LEAST_SHARE
        own = share * (rhythm.tokens_per_second or 0.0)
        # All of it has to be gone when the bound of the newest comes.
        left = self._held[-1].arrived_seconds + self._max_delay - now
        return max(rate, own, self.tokens / max(_SOON_SECONDS, left), _LEAST_RATE)

    def _see(self, now: float) -> None:
        """Notice a clock that went back: no wait may grow by that."""
        if now < self._now:
            for held in self._held:
                held.arrived_seconds = min(held.arrived_seconds, now)
            self._due_seconds = min(self._due_seconds, now)
        self._now = now
