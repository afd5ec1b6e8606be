"""Private mode: everything is sent to the client on a fixed clock, in packets of fixed sizes.

It wraps the client's `Sink`, so that nothing bypasses it: text, comments, errors, the end.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from math import ceil
from types import TracebackType
from typing import NamedTuple, Self

from gateway.pacing import Packet, Packetizer
from gateway.protocol import FrameSplitter
from gateway.relay.token_clock import Observe
from gateway.relay.writer import Mark
from gateway.types import Headers, Sink

_MAX_QUEUED_BYTES = 2**18
"""Above this, writes wait, and so does the worker."""


@dataclass(frozen=True, slots=True)
class PrivatePolicy:
    """What an observer sees of a stream.

    Attributes:
        tick_seconds: Time between packets.
        packet_bytes: Size of the smallest packets. Larger ones double it, repeatedly.
        start_seconds: The first packet is sent at a multiple of this after the request.
        min_seconds: Shortest time from the first packet to the last. Longer ones double it, up to
            a limit (`Packetizer`).
    """

    tick_seconds: float
    packet_bytes: int
    start_seconds: float
    min_seconds: float

    @property
    def min_ticks(self) -> int:
        """Shortest answer, in ticks."""
        return max(1, round(self.min_seconds / self.tick_seconds))


class _QueuedTokens(NamedTuple):
    """Tokens that are sent once the first `bytes` bytes of the answer are."""

    bytes: int
    tokens: int | None
    arrived_seconds: float


class PrivateSink:
    """The client's side of one private stream, as a context manager that owns its clock.

    Args:
        sink: The client's side itself.
        packetizer: Makes the packets.
        policy: When they are sent.
        mark: Called with the number of tokens sent.
        added: Called with an added delay in seconds and the number of tokens delayed.

    Attributes:
        started: The answer has begun. Its head is sent at the first tick.
    """

    def __init__(
        self,
        sink: Sink,
        packetizer: Packetizer,
        policy: PrivatePolicy,
        *,
        mark: Mark,
        added: Observe,
    ) -> None:
        self._sink = sink
        self._packetizer = packetizer
        self._policy = policy
        self._mark = mark
        self._added = added
        self._loop = asyncio.get_running_loop()
        self._asked_seconds = self._loop.time()
        self._sending: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._queued: deque[_QueuedTokens] = deque()
        self.started = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Cleared, since the task's error refers back to this sink: a reference cycle.
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.cancel()
            # `gather` marks the task's error as retrieved, so asyncio does not log it.
            await asyncio.gather(sending, return_exceptions=True)

    async def start(self, status: int, headers: Headers) -> None:
        """Begin the answer."""
        self.started = True
        self._sending = asyncio.create_task(self._send(status, headers), name="private")

    async def write(self, data: bytes) -> None:
        """Queue complete events; waits while the queue is full."""
        assert self._sending is not None
        while self._packetizer.queued_bytes > _MAX_QUEUED_BYTES and not self._sending.done():
            self._room.clear()
            await self._room.wait()
        if self._sending.done():
            await self._sending  # raises its error
        self._packetizer.put(data)

    def write_now(self, data: bytes) -> bool:
        """Queue complete events; False if the queue is full."""
        if self._packetizer.queued_bytes > _MAX_QUEUED_BYTES:
            return False
        self._packetizer.put(data)
        return True

    async def end(self, data: bytes = b"") -> None:
        """Queue the last events; returns when the last packet has been sent.

        A cancelled caller may call again: the answer still ends only once.
        """
        assert self._sending is not None
        if not self._packetizer.is_ending:
            *before, last = FrameSplitter(len(data)).feed(data) or [data]
            self._packetizer.put(b"".join(before))
            self._packetizer.end(last)
        await asyncio.shield(self._sending)

    def abort(self) -> None:
        """Close the client's connection at once."""
        self._sink.abort()

    def hurry(self) -> None:
        """End the answer as soon as everything is sent, whatever its length."""
        self._packetizer.hurry()

    def mark_queued(self, tokens: int | None) -> None:
        """Record the number of tokens in what was queued last."""
        self._queued.append(_QueuedTokens(self._packetizer.put_bytes, tokens, self._loop.time()))

    async def _send(self, status: int, headers: Headers) -> None:
        policy = self._policy
        try:
            await self._sleep_until_multiple(policy.start_seconds, since=self._asked_seconds)
            await self._sink.start(status, headers)
            begun_seconds = self._loop.time()
            while not (packet := self._packetizer.next_packet()).is_last:
                await self._sink.write(packet.data)
                self._count(packet)
                await self._sleep_until_multiple(policy.tick_seconds, since=begun_seconds)
            await self._sink.end(packet.data)
            self._count(packet)
        finally:
            self._room.set()

    async def _sleep_until_multiple(self, seconds: float, *, since: float) -> None:
        """Sleep until the next multiple of `seconds` after `since`."""
        passed = self._loop.time() - since
        # A timer that fired slightly early must not wait for the same multiple again.
        await asyncio.sleep((ceil(passed / seconds + 0.01) * seconds) - passed)

    def _count(self, packet: Packet) -> None:
        self._room.set()
        now = self._loop.time()
        while self._queued and self._queued[0].bytes <= packet.sent_bytes:
            sent = self._queued.popleft()
            self._mark(sent.tokens)
            self._added(now - sent.arrived_seconds, sent.tokens or 1)
