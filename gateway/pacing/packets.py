"""Private mode: an answer as packets of equal size, one per tick, however its text arrived.

Pure: it counts ticks and has no clock. An observer sees the number of packets, which is one of a
few possible lengths. Packets grow to the next size only if the answer would lag behind otherwise.
"""

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

_CATCH_UP_TICKS = 8
"""Packets grow if the queue would take longer than this."""
LONGEST_STEP = 12
"""Lengths double up to this multiple of the shortest, then grow by this multiple."""

Pad = Callable[[bytes, int], bytes]
"""Pads complete events to a size in bytes."""


class Packet(NamedTuple):
    """The packet of one tick.

    Attributes:
        data: Its bytes.
        sent_bytes: Bytes of the answer sent in this packet and before, without padding.
        is_last: Whether the answer ends with it.
    """

    data: bytes
    sent_bytes: int
    is_last: bool


class Packetizer:
    """The packets of one answer.

    Args:
        packet_bytes: Size of the smallest packets. Larger ones double it, repeatedly.
        min_ticks: Shortest length of an answer.
        pad: Pads a packet.

    Attributes:
        put_bytes: Bytes added so far.
    """

    def __init__(self, *, packet_bytes: int, min_ticks: int, pad: Pad) -> None:
        self._packet_bytes = packet_bytes
        self._min_ticks = min_ticks
        self._pad = pad
        self._queue = bytearray()
        self._last: bytes | None = None
        self._hurries = False
        self._ticks = 0
        self.put_bytes = 0

    @property
    def queued_bytes(self) -> int:
        """Bytes added and not sent."""
        return len(self._queue)

    @property
    def is_ending(self) -> bool:
        """Whether the last event was added."""
        return self._last is not None

    def put(self, events: bytes) -> None:
        """Add complete events."""
        self._queue += events
        self.put_bytes += len(events)

    def end(self, event: bytes) -> None:
        """Add the last event, which is sent when the answer reaches one of the lengths."""
        self._last = event
        self.put_bytes += len(event)

    def hurry(self) -> None:
        """End as soon as everything is sent, whatever the length; for a shutdown."""
        self._hurries = True

    def next_packet(self) -> Packet:
        """The packet of the next tick; must not be called after the last."""
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
        """The next of the possible lengths, in ticks."""
        length = self._min_ticks
        while length < self._ticks + after:
            length += min(length, LONGEST_STEP * self._min_ticks)
        return length

    def _size(self) -> int:
        size = self._packet_bytes
        while size * _CATCH_UP_TICKS < len(self._queue):
            size *= 2
        return size
