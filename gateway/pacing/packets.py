"""Private mode: an answer as packets of equal size, one a tick, however its text came.

Pure: it counts ticks and knows no clock. Who looks on sees how many packets there were, and that
number comes from a short list of lengths. Packets grow to the next size class only when the
answer would lag too far behind otherwise.
"""

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

_CATCH_UP_TICKS = 8
"""What waits is to leave within so many; else packets of the next class go out."""
LONGEST_STEP = 12
"""Lengths double until they are so many times the least; from there they grow by as much."""

Pad = Callable[[bytes, int], bytes]
"""Fills whole events up to a size in bytes."""


class Packet(NamedTuple):
    """What leaves at one tick.

    Attributes:
        sent_bytes: How much of what was put has left with it and before it, all in all.
        is_last: The answer is over.
    """

    data: bytes
    sent_bytes: int
    is_last: bool


class PacketShape:
    """The packets of one answer.

    Args:
        packet_bytes: Size of the smallest class; the others are its doubles.
        least_ticks: An answer lasts so many ticks, or the next of its lengths.
        pad: Fills up a packet.

    Attributes:
        put_bytes: How much was put so far.
    """

    def __init__(self, *, packet_bytes: int, least_ticks: int, pad: Pad) -> None:
        self._packet_bytes = packet_bytes
        self._least_ticks = least_ticks
        self._pad = pad
        self._queue = bytearray()
        self._last: bytes | None = None
        self._hurries = False
        self._ticks = 0
        self.put_bytes = 0

    @property
    def queued_bytes(self) -> int:
        """What was put and has not left."""
        return len(self._queue)

    @property
    def is_ending(self) -> bool:
        """Whether the last event was given."""
        return self._last is not None

    def put(self, events: bytes) -> None:
        """Add whole events."""
        self._queue += events
        self.put_bytes += len(events)

    def end(self, event: bytes) -> None:
        """Add the last event, which leaves when the answer has one of its lengths."""
        self._last = event
        self.put_bytes += len(event)

    def hurry(self) -> None:
        """End as soon as all has left, whatever the length; for what ends all answers at once."""
        self._hurries = True

    def next_packet(self) -> Packet:
        """What leaves at the next tick; not to be called after the last."""
        if self._last is not None and self._is_time_to_end():
            self._queue += self._last
            self._last = b""
        size = self._size()
        self._ticks += 1
        data = bytes(self._queue[:size])
        del self._queue[:size]
        if len(data) < size:
            data = self._pad(data, size)
        waiting = len(self._queue) + len(self._last or b"")
        is_long_enough = self._hurries or self._ticks >= self._length()
        is_last = self._last == b"" and not self._queue and is_long_enough
        return Packet(data, self.put_bytes - waiting, is_last)

    def _is_time_to_end(self) -> bool:
        waiting = len(self._queue) + len(self._last or b"")
        needed = max(1, ceil(waiting / self._packet_bytes))
        return self._hurries or self._ticks + needed >= self._length(after=needed)

    def _length(self, *, after: int = 0) -> int:
        """The first of the lengths that is not yet over, in ticks."""
        length = self._least_ticks
        while length < self._ticks + after:
            length += min(length, LONGEST_STEP * self._least_ticks)
        return length

    def _size(self) -> int:
        size = self._packet_bytes
        while size * _CATCH_UP_TICKS < len(self._queue):
            size *= 2
        return size
