"""A playout buffer: smooths bursts, and delays nothing beyond a bound.

Pure: the clock is an argument. The output rate is proportional to what is held, so that all of it
would be sent within the usual delay, but it never falls far below the stream's own rate.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gateway.pacing.rhythm import Rhythm

T = TypeVar("T")

_USUAL_SHARE = 0.6
"""Usual delay as a share of the bound. More would be smoother, but raise the median delay."""
_MIN_SHARE = 0.7
"""Slowest output as a share of the stream's own rate; below 1, so that an empty buffer refills."""
_DRAINING_SHARE = 1.25
"""The same once a stream has become even; above 1, to empty its buffer."""
_LATE_SECONDS = 0.010
"""Usual lateness of timers: text is sent this long before its bound."""
_MIN_DELAY_SHARE = 0.5
"""Text may always wait for this share of the bound, however late timers are: only a timer in use
can notice that timers are on time again."""
_SOON_SECONDS = 0.001
"""Shorter waits are not worth a timer."""
_MIN_RATE = 1.0
"""Tokens per second; avoids a division by zero."""


Split = Callable[[T, int, int], tuple[T, T] | None]
"""Cuts an item after some of its tokens: (item, tokens, of how many). None if it cannot be cut."""


@dataclass(slots=True)
class Held(Generic[T]):
    """Held text. It is cut only when part of it is sent.

    Attributes:
        item: Whatever its owner needs to send it.
        tokens: Number of tokens in it, >= 0.
        arrived_seconds: Clock at its arrival.
        is_open: It may end inside a character, so a piece should not end here or within it.
    """

    item: T
    tokens: int
    arrived_seconds: float
    is_open: bool = False


class Timers(Protocol):
    """The timers that call `release`."""

    @property
    def late_seconds(self) -> float:
        """How late they may be."""


class Playout(Generic[T]):
    """The buffer of one stream; false if empty.

    Args:
        max_delay_seconds: Longest wait of any text.
        split: Cuts an item.
        timers: If they are late, text is sent earlier.

    Attributes:
        tokens: Number of tokens held.
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
        """The latest text, if still held; the owner may change its `is_open`."""
        return self._held[-1] if self._held else None

    def hold(self, item: T, tokens: int, *, now: float, is_open: bool = False) -> None:
        """Append text."""
        if now < self._now:
            self._went_back(now)
        self._now = now
        self._held.append(Held(item, tokens, now, is_open))
        self.tokens += tokens

    def wait_seconds(self, now: float) -> float | None:
        """Time until `release` returns something; None if nothing is held."""
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
        """Remove the next piece; empty before it is due.

        Args:
            rhythm: The stream's rhythm.
            now: Clock, seconds.
            piece_seconds: Size of a piece, as the time in which it is produced at the output rate.
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
        """Remove everything, in order."""
        taken = list(self._held)
        self._held.clear()
        self.tokens = 0
        return taken

    def _cut(self, held: Held[T], number: int, tokens: int) -> bool:
        """Cut `held`, the `number`-th item, after `tokens` tokens; False if it cannot be cut."""
        if held.is_open or tokens >= held.tokens:
            return False
        parts = self._split(held.item, tokens, held.tokens)
        if parts is None:
            return False
        first, held.item = parts
        held.tokens -= tokens
        self._held.insert(number - 1, Held(first, tokens, held.arrived_seconds))
        return True

    def _take(self, count: int, rate: float, now: float) -> list[Held[T]]:
        taken = [self._held.popleft() for _ in range(count)]
        if taken:
            tokens = 0
            for held in taken:
                tokens += held.tokens
            self.tokens -= tokens
            # A late timer must not slow the stream down, and a pause must not speed it up.
            is_in_time = now - self._due_seconds <= _LATE_SECONDS
            self._due_seconds = (self._due_seconds if is_in_time else now) + tokens / rate
        return taken

    def _longest_seconds(self) -> float:
        """The longest wait, given how late timers are now."""
        late, least = self._timers.late_seconds, _MIN_DELAY_SHARE * self._max_delay
        return max(least, self._max_delay - late) if late else self._max_delay

    def _rate(self, rhythm: Rhythm, now: float, longest_seconds: float) -> float:
        """The output rate, in tokens per second."""
        rate = self.tokens / max(_SOON_SECONDS, _USUAL_SHARE * longest_seconds)
        share = _DRAINING_SHARE if rhythm.is_even else _MIN_SHARE
        if (own := rhythm.tokens_per_second) is not None and share * own > rate:
            rate = share * own
        # Everything has to be sent before the newest text is due.
        left = self._held[-1].arrived_seconds + longest_seconds - now
        if self.tokens > rate * left:
            rate = self.tokens / max(_SOON_SECONDS, left)
        return rate if rate > _MIN_RATE else _MIN_RATE

    def _went_back(self, now: float) -> None:
        """Adjust to a clock that went back, so that no wait grows."""
        for held in self._held:
            held.arrived_seconds = min(held.arrived_seconds, now)
        self._due_seconds = min(self._due_seconds, now)
