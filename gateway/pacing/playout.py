"""A playout buffer: what came in bursts leaves evenly, and nothing waits longer than its bound.

Pure: the clock is an argument. Text leaves in proportion to what is held, as if all of it were to
leave within the usual delay; but hardly slower than the stream's own rate while there is any.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

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
_LEAST_DELAY_SHARE = 0.5
"""However late timers are, text may wait for this part of the bound: they are to have work, since
they tell by it when they are in time again."""
_SOON_SECONDS = 0.001
"""To wait for less is not worth a timer."""
_LEAST_RATE = 1.0
"""Tokens a second; nothing is this slow, but to divide by a rate needs one."""


Split = Callable[[T, int, int], tuple[T, T] | None]
"""Cuts an item after its first tokens, of so many that it is; None where it cannot be cut."""


@dataclass(slots=True)
class Held(Generic[T]):
    """Some text that waits, as long as can be: it is cut when it leaves.

    Attributes:
        item: Whatever its owner needs to send it.
        tokens: How many tokens it is, >= 0.
        arrived_seconds: Clock at its arrival.
        is_open: It ends, or may end, within a character: a piece should not end here, nor
            within it.
    """

    item: T
    tokens: int
    arrived_seconds: float
    is_open: bool = False


class Timers(Protocol):
    """What has `release` called when it is time."""

    @property
    def late_seconds(self) -> float:
        """So late it may be."""


class Playout(Generic[T]):
    """The buffer of one stream; empty is false.

    Args:
        max_delay_seconds: Longest wait of anything in it.
        split: Cuts what leaves in part.
        timers: When they are late, text is to leave the earlier.

    Attributes:
        tokens: How many are held.
    """

    __slots__ = ("_due_seconds", "_held", "_max_delay", "_now", "_split", "_timers", "tokens")

    def __init__(self, *, max_delay_seconds: float, split: Split[T], timers: Timers) -> None:
        self._split = split
        self._timers = timers
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
        if now < self._now:
            self._went_back(now)
        self._now = now
        self._held.append(Held(item, tokens, now, is_open))
        self.tokens += tokens

    def wait_seconds(self, now: float) -> float | None:
        """How long until `release` has something; None while nothing is held."""
        if now < self._now:
            self._went_back(now)
        self._now = now
        if not self._held:
            return None
        first, due = self._held[0], self._due_seconds
        bound = first.arrived_seconds + self._longest_seconds()
        if due > bound or (first.is_open and all(held.is_open for held in self._held)):
            due = bound
        wait = due - now
        return wait if wait > _SOON_SECONDS else 0.0

    def release(self, rhythm: Rhythm, now: float, *, piece_seconds: float) -> list[Held[T]]:
        """Take out the next piece, in order; empty before its time.

        Args:
            rhythm: The stream's own.
            now: Clock, seconds.
            piece_seconds: How much text leaves at once, in seconds of reading it.
        """
        if now < self._now:
            self._went_back(now)
        self._now = now
        if not self._held:
            return []
        longest = self._longest_seconds()
        rate = self._rate(rhythm, now, longest)
        is_due = self._due_seconds - now <= _SOON_SECONDS
        wanted = max(1, round(rate * piece_seconds)) if is_due else 0
        overdue_seconds = now - longest + _SOON_SECONDS
        count = tokens = 0
        for number, held in enumerate(self._held, start=1):
            if held.arrived_seconds > overdue_seconds:
                missing = wanted - tokens
                if missing <= 0 and count == number - 1:
                    break
                if missing < held.tokens and self._cut(held, number, max(1, missing)):
                    count = number
                    break
                if held.is_open:
                    tokens += held.tokens
                    continue
            tokens += held.tokens
            count = number
        return self._take(count, rate, now)

    def release_all(self) -> list[Held[T]]:
        """Take out everything, in order."""
        taken = list(self._held)
        self._held.clear()
        self.tokens = 0
        return taken

    def _cut(self, held: Held[T], place: int, tokens: int) -> bool:
        """Cut what is held at `place` in two, the first with so many tokens, if that can be."""
        if held.is_open or tokens >= held.tokens:
            return False
        parts = self._split(held.item, tokens, held.tokens)
        if parts is None:
            return False
        first, held.item = parts
        held.tokens -= tokens
        self._held.insert(place - 1, Held(first, tokens, held.arrived_seconds))
        return True

    def _take(self, count: int, rate: float, now: float) -> list[Held[T]]:
        taken = [self._held.popleft() for _ in range(count)]
        if taken:
            tokens = 0
            for held in taken:
                tokens += held.tokens
            self.tokens -= tokens
            # A timer that was late must not slow the stream down; a pause must not speed it up.
            is_in_time = now - self._due_seconds <= _LATE_SECONDS
            self._due_seconds = (self._due_seconds if is_in_time else now) + tokens / rate
        return taken

    def _longest_seconds(self) -> float:
        """The longest wait, as timers are now."""
        late, least = self._timers.late_seconds, _LEAST_DELAY_SHARE * self._max_delay
        return max(least, self._max_delay - late) if late else self._max_delay

    def _rate(self, rhythm: Rhythm, now: float, longest_seconds: float) -> float:
        """Tokens a second at which text should leave now."""
        rate = self.tokens / max(_SOON_SECONDS, _USUAL_SHARE * longest_seconds)
        share = _DRAINING_SHARE if rhythm.is_even else _LEAST_SHARE
        if (own := rhythm.tokens_per_second) is not None and share * own > rate:
            rate = share * own
        # All of it has to be gone when the bound of the newest comes.
        left = self._held[-1].arrived_seconds + longest_seconds - now
        if self.tokens > rate * left:
            rate = self.tokens / max(_SOON_SECONDS, left)
        return rate if rate > _LEAST_RATE else _LEAST_RATE

    def _went_back(self, now: float) -> None:
        """The clock did: no wait may grow by that."""
        for held in self._held:
            held.arrived_seconds = min(held.arrived_seconds, now)
        self._due_seconds = min(self._due_seconds, now)
