"""A cheap and precise HTTP client for benchmarks: it records time and bytes of every read.

For load with scenarios, see `loadtest.load.client`, which costs more and knows more of HTTP.
"""

import asyncio
import re
import selectors
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self, cast

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"
_CHUNKED_END = b"0\r\n\r\n"
_MANY = 200
_REST_SECONDS = 0.0005


@dataclass(slots=True)
class Exchange:
    """One request and its answer; every clock reading is CLOCK_MONOTONIC.

    Attributes:
        sent_ns: Clock when the request was handed to the socket.
        packets: Clock and bytes of each read, in order; HTTP's head and framing included.
        head_bytes: Length of the head; zero while it has not come.
        flaw: Why the answer is not whole and good; None when it is.
    """

    sent_ns: int
    packets: list[tuple[int, bytes]] = field(default_factory=list)
    head_bytes: int = 0
    flaw: str | None = None

    @property
    def end_ns(self) -> int:
        """Clock of the last packet, or of the request if none came."""
        return self.packets[-1][0] if self.packets else self.sent_ns

    @property
    def first_byte_ns(self) -> int:
        """Clock when the first byte of the body arrived, or the end where there is no body."""
        received = 0
        for at_ns, data in self.packets:
            received += len(data)
            if received > self.head_bytes:
                return at_ns
        return self.end_ns

    @property
    def body(self) -> bytes:
        """The body as it was received, HTTP's chunk framing included."""
        return b"".join(data for _, data in self.packets)[self.head_bytes :]


class LoadConnection(asyncio.Protocol):
    """One keep-alive connection; one exchange at a time."""

    def __init__(self) -> None:
        self._answered: asyncio.Future[None] | None = None
        self._lost = False

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect to `port` on 127.0.0.1.

        Raises:
            OSError: The connection was refused, or the backlog is full.
        """
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    async def exchange(self, request: bytes, *, timeout_seconds: float) -> Exchange:
        """Send `request` and take the whole answer.

        Returns:
            The exchange; one that failed says so in `flaw`.
        """
        self._exchange = exchange = Exchange(time.monotonic_ns())
        if self._lost:
            exchange.flaw = "the connection was closed between requests"
            return exchange
        self._remaining = -1
        self._tail = b""
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._answered
        except TimeoutError:
            self._lost = True  # late bytes would be taken for the next answer
            self._transport.abort()
            exchange.flaw = f"not whole in {timeout_seconds:g} s"
        except ConnectionError as error:
            exchange.flaw = str(error)
        return exchange

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the exchange that is running."""
        self._lost = True
        if self._answered is not None and not self._answered.done():
            reason = f": {exc}" if exc else ""
            self._answered.set_exception(ConnectionResetError(f"closed in mid-answer{reason}"))

    def data_received(self, data: bytes) -> None:
        """Note the time and look whether the answer is whole."""
        now_ns = time.monotonic_ns()
        if self._answered is None or self._answered.done():
            return  # late bytes of an exchange that was given up
        exchange = self._exchange
        exchange.packets.append((now_ns, data))
        body = data
        if not exchange.head_bytes:
            received = exchange.body
            end = received.find(_HEAD_END)
            if end < 0:
                return
            exchange.head_bytes = end + len(_HEAD_END)
            body = received[exchange.head_bytes :]
            self._read_head(received[:end])
        if self._is_whole(body):
            if self._status != 200:
                exchange.flaw = f"status {self._status}: {exchange.body[:200]!r}"
            self._answered.set_result(None)

    def _read_head(self, head: bytes) -> None:
        status = _STATUS.match(head)
        length = _LENGTH.search(head)
        self._status = int(status[1]) if status else 0
        self._remaining = int(length[1]) if length else -1

    def _is_whole(self, body: bytes) -> bool:
        if self._remaining >= 0:
            self._remaining -= len(body)
            return self._remaining <= 0
        # Events hold no CR, so these five bytes can only be the last chunk of the body.
        self._tail = body[-5:] if len(body) >= 5 else (self._tail + body)[-5:]
        return self._tail == _CHUNKED_END


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many streams run at once, and how they begin.

    Attributes:
        at_once: Most of them; a stream that ends makes room for the next.
        spacing_seconds: Least time between two beginnings.
        limit_seconds: Longest that one may take; one that takes longer is flawed.
    """

    at_once: int
    spacing_seconds: float
    limit_seconds: float


def capture_streams(port: int, requests: Sequence[bytes], crowd: Crowd) -> list[Exchange]:
    """Send every request to 127.0.0.1 on a connection of its own, and take all answers.

    Blocks the calling thread until the last answer has ended.

    Returns:
        An exchange for each request, in their order; one that failed says so in `flaw`.

    Raises:
        OSError: A connection was refused.
    """

    def resting_loop() -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(_RestingSelector())

    with asyncio.Runner(loop_factory=resting_loop) as runner:
        return runner.run(_capture(port, requests, crowd))


async def _capture(port: int, requests: Sequence[bytes], crowd: Crowd) -> list[Exchange]:
    room = asyncio.Semaphore(crowd.at_once)
    loop = asyncio.get_running_loop()
    next_at = loop.time()
    streams: list[asyncio.Task[Exchange]] = []

    async def one(request: bytes) -> Exchange:
        try:
            connection = await LoadConnection.open(port)
            try:
                return await connection.exchange(request, timeout_seconds=crowd.limit_seconds)
            finally:
                connection.close()
        finally:
            room.release()

    for request in requests:
        await room.acquire()
        await asyncio.sleep(next_at - loop.time())
        next_at = max(next_at + crowd.spacing_seconds, loop.time())  # no rush after a wait
        streams.append(asyncio.create_task(one(request)))
    return list(await asyncio.gather(*streams))


class _RestingSelector(selectors.EpollSelector):
    """Waits a little between two looks at many streams.

    Waking up for each packet costs both ends more CPU than the packet itself, and half a
    millisecond is negligible in what a crowd is measured for.
    """

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Rest if there are many, then wait as usual."""
        if len(self.get_map()) > _MANY:
            time.sleep(_REST_SECONDS)
        return super().select(timeout)
