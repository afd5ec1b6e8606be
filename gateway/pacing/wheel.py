"""One timer for many streams: whatever is due in the same few milliseconds is done in one wake-up.

A timer for each piece of each stream would cost more than the piece. Here a stream's next piece is
an entry in a slot, and the loop has one timer, for the first slot that is not empty.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil, floor
from typing import Protocol

_SLOT_SECONDS = 0.004
"""What a reader cannot see, and a loop that is busy cannot keep."""
_WORK_SECONDS = 60e-6
"""What an entry takes at worst, a write to a socket included."""
_LATE_FADES = 0.99
"""How much of the worst lateness is remembered at the next turn, 4 ms later as a rule."""

Work = Callable[[], None]


class Timer(Protocol):
    """A timer that was set, such as `asyncio.TimerHandle`."""

    def cancel(self) -> None:
        """Unset it."""


class Clock(Protocol):
    """What tells the time and sets timers, such as an `asyncio` loop."""

    def time(self) -> float:
        """Seconds; never goes back."""

    def call_at(self, when: float, callback: Work, /) -> Timer:
        """Call back when it is `when`."""


class Timer:
    """Work that waits for its slot."""

    __slots__ = ("work",)

    def __init__(self, work: Work) -> None:
        self.work: Work | None = work

    def cancel(self) -> None:
        """Leave it undone."""
        self.work = None


class Wheel:
    """Does work later, all that is due at once in one go.

    Args:
        clock: The loop on which it is used.

    Attributes:
        waiting: Entries in it, those that were cancelled included.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[int, list[Timer]] = {}
        self._order: list[int] = []
        self._timer: Timer | None = None
        self._turned = -1
        self.waiting = 0
        self._late_seconds = 0.0

    @property
    def late_seconds(self) -> float:
        """So late work may be: as late as it was lately, or if all that waits comes due at once."""
        return max(self._late_seconds, self.waiting * _WORK_SECONDS)

    def call_later(self, seconds: float, work: Work) -> Timer:
        """Do `work` in `seconds`, or up to two slots later."""
        slot = ceil((self._clock.time() + seconds) / _SLOT_SECONDS)
        slot = max(slot, self._turned + 1)  # work that calls for itself at once waits its turn
        entry = Timer(work)
        self.waiting += 1
        if (entries := self._slots.get(slot)) is not None:
            entries.append(entry)
        else:
            self._slots[slot] = [entry]
            heappush(self._order, slot)
            if self._order[0] == slot:
                self._set_timer()
        return entry

    def close(self) -> None:
        """Drop all that waits."""
        self._slots.clear()
        self._order.clear()
        self.waiting = 0
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._order:
            self._timer = self._clock.call_at(self._order[0] * _SLOT_SECONDS, self._turn)

    def _turn(self) -> None:
        now = self._clock.time()
        self._late_seconds *= _LATE_FADES
        if self._order and (late := now - self._order[0] * _SLOT_SECONDS) > self._late_seconds:
            self._late_seconds = late
        # A loop may call a little early.
        self._turned = floor(now / _SLOT_SECONDS + 0.5)
        try:
            while self._order and self._order[0] <= self._turned:
                entries = self._slots[self._order[0]]
                while entries:
                    self.waiting -= 1
                    if (work := entries.pop().work) is not None:
                        work()
                del self._slots[heappop(self._order)]
        finally:  # one that fails is the loop's to report; the others go on
            self._set_timer()
