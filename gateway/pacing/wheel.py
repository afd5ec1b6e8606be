"""A timer wheel: timers that are due within the same few milliseconds fire together.

A loop timer for each piece of each stream would cost more than the piece. Here each stream has a
timer in a slot of the wheel, and the loop has one timer, for the first slot in use.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil, floor
from typing import Protocol

_SLOT_SECONDS = 0.004
"""Invisible to a reader, and finer than a busy loop can keep."""
_WORK_SECONDS = 60e-6
"""Time that one timer takes at worst, with a write to a socket."""
_LATE_FADES = 0.99
"""Decay of the worst lateness per turn, usually 4 ms."""

Work = Callable[[], None]


class LoopTimer(Protocol):
    """A timer of the loop, such as `asyncio.TimerHandle`."""

    def cancel(self) -> None:
        """Cancel it."""


class Clock(Protocol):
    """A clock with timers, such as an `asyncio` loop."""

    def time(self) -> float:
        """Seconds; never goes back."""

    def call_at(self, when: float, callback: Work, /) -> LoopTimer:
        """Call `callback` at `when`."""


class Timer:
    """Work that waits in a slot of the wheel."""

    __slots__ = ("work",)

    def __init__(self, work: Work) -> None:
        self.work: Work | None = work

    def cancel(self) -> None:
        """Cancel the work."""
        self.work = None


class Wheel:
    """The wheel.

    Args:
        clock: The loop on which it is used.

    Attributes:
        waiting: Number of timers in it, cancelled ones included.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[int, list[Timer]] = {}
        self._order: list[int] = []
        self._loop_timer: LoopTimer | None = None
        self._turned = -1
        self.waiting = 0
        self._late_seconds = 0.0

    @property
    def late_seconds(self) -> float:
        """How late work may be: as late as recently, or as if all timers were due at once."""
        return max(self._late_seconds, self.waiting * _WORK_SECONDS)

    def call_later(self, seconds: float, work: Work) -> Timer:
        """Do `work` in `seconds`, or up to two slots later."""
        slot = ceil((self._clock.time() + seconds) / _SLOT_SECONDS)
        slot = max(slot, self._turned + 1)  # work that sets a timer for now runs in the next turn
        timer = Timer(work)
        self.waiting += 1
        if (timers := self._slots.get(slot)) is not None:
            timers.append(timer)
        else:
            self._slots[slot] = [timer]
            heappush(self._order, slot)
            if self._order[0] == slot:
                self._set_loop_timer()
        return timer

    def close(self) -> None:
        """Drop all timers."""
        self._slots.clear()
        self._order.clear()
        self.waiting = 0
        self._set_loop_timer()

    def _set_loop_timer(self) -> None:
        if self._loop_timer is not None:
            self._loop_timer.cancel()
            self._loop_timer = None
        if self._order:
            self._loop_timer = self._clock.call_at(self._order[0] * _SLOT_SECONDS, self._turn)

    def _turn(self) -> None:
        now = self._clock.time()
        self._late_seconds *= _LATE_FADES
        if self._order and (late := now - self._order[0] * _SLOT_SECONDS) > self._late_seconds:
            self._late_seconds = late
        # The loop may call slightly early.
        self._turned = floor(now / _SLOT_SECONDS + 0.5)
        try:
            while self._order and self._order[0] <= self._turned:
                timers = self._slots[self._order[0]]
                while timers:
                    self.waiting -= 1
                    if (work := timers.pop().work) is not None:
                        work()
                del self._slots[heappop(self._order)]
        finally:  # the loop reports work that raises; the other timers still fire
            self._set_loop_timer()
