"""Private mode: whatever goes to a client leaves on a fixed clock, in packets of fixed sizes.

A `Sink` before another one, so that nothing can leave past it: text, comments, errors, the end.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from math import ceil
from types import TracebackType
from typing import NamedTuple, Self

from gateway.pacing import Packet, PacketShape
from gateway.protocol import FrameSplitter
from gateway.relay.token_clock import Observe
from gateway.relay.writer import Mark
from gateway.types import Headers, Sink

_MOST_QUEUED_BYTES = 2**18
"""A worker that is so far ahead waits."""


@dataclass(frozen=True, slots=True)
class PrivatePolicy:
    """What a stream looks like from outside.

    Attributes:
        tick_seconds: From one packet to the next.
        packet_bytes: Size of the smallest packets; larger ones are its doubles.
        start_seconds: The first packet leaves at a multiple of this after the request came.
        least_seconds: The shortest time from first packet to last; others are its doubles.
    """

    tick_seconds: float
    packet_bytes: int
    start_seconds: float
    least_seconds: float

    @property
    def least_ticks(self) -> int:
        """The least length of an answer."""
        return max(1, round(self.least_seconds / self.tick_seconds))


class _Passage(NamedTuple):
    """Tokens that have left once `bytes` have."""

    bytes: int
    tokens: int | None
    arrived_seconds: float


class PrivateSink:
    """The client's side of one private stream, as a context manager that owns its clock.

    Args:
        sink: The client's side itself.
        shape: Makes the packets.
        policy: When they leave.
        mark: Told of each token that leaves.
        added: Takes a delay in seconds, and how many tokens had it.

    Attributes:
        started: The answer has begun; its head leaves with the first tick.
    """

    def __init__(
        self,
        sink: Sink,
        shape: PacketShape,
        policy: PrivatePolicy,
        *,
        mark: Mark,
        added: Observe,
    ) -> None:
        self._sink = sink
        self._shape = shape
        self._policy = policy
        self._mark = mark
        self._added = added
        self._loop = asyncio.get_running_loop()
        self._asked_seconds = self._loop.time()
        self._sending: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._passing: deque[_Passage] = deque()
        self.started = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Let go of: the task knows this sink, by the frames of the error that it ended with.
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.cancel()
            # Gathered, so that an error which nobody waited for counts as seen.
            await asyncio.gather(sending, return_exceptions=True)

    async def start(self, status: int, headers: Headers) -> None:
        """Begin the answer."""
        self.started = True
        self._sending = asyncio.create_task(self._send(status, headers), name="private")

    async def write(self, data: bytes) -> None:
        """Queue whole events; waits while too many are queued."""
        assert self._sending is not None
        while self._shape.queued_bytes > _MOST_QUEUED_BYTES and not self._sending.done():
            self._room.clear()
            await self._room.wait()
        if self._sending.done():
            await self._sending  # it failed: say so
        self._shape.put(data)

    def write_now(self, data: bytes) -> bool:
        """Queue whole events, unless too many are queued."""
        if self._shape.queued_bytes > _MOST_QUEUED_BYTES:
            return False
        self._shape.put(data)
        return True

    async def end(self, data: bytes = b"") -> None:
        """Queue the last events; returns when the last packet has left.

        Who was cancelled here may call again, for an answer that must not end twice.
        """
        assert self._sending is not None
        if not self._shape.is_ending:
            *before, last = FrameSplitter(len(data)).feed(data) or [data]
            self._shape.put(b"".join(before))
            self._shape.end(last)
        await asyncio.shield(self._sending)

    def hurry(self) -> None:
        """Let the answer end soon, whatever length it has then."""
        self._shape.hurry()

    def passes(self, tokens: int | None) -> None:
        """So many tokens are in what was queued last."""
        self._passing.append(_Passage(self._shape.put_bytes, tokens, self._loop.time()))

    async def _send(self, status: int, headers: Headers) -> None:
        policy = self._policy
        try:
            await self._sleep_until_multiple(policy.start_seconds, since=self._asked_seconds)
            await self._sink.start(status, headers)
            begun_seconds = self._loop.time()
            while not (packet := self._shape.next_packet()).is_last:
                await self._sink.write(packet.data)
                self._count(packet)
                await self._sleep_until_multiple(policy.tick_seconds, since=begun_seconds)
            await self._sink.end(packet.data)
            self._count(packet)
        finally:
            self._room.set()

    async def _sleep_until_multiple(self, seconds: float, *, since: float) -> None:
        """Sleep until the next multiple of `seconds`, by a clock that began at `since`."""
        passed = self._loop.time() - since
        # What is nearly a multiple is one, for a timer that came early.
        await asyncio.sleep((ceil(passed / seconds + 0.01) * seconds) - passed)

    def _count(self, packet: Packet) -> None:
        self._room.set()
        now = self._loop.time()
        while self._passing and self._passing[0].bytes <= packet.sent_bytes:
            passage = self._passing.popleft()
            self._mark(passage.tokens)
            self._added(now - passage.arrived_seconds, passage.tokens or 1)
