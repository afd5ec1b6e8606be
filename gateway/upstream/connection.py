"""HTTP/1.1 on one connection to a worker: one exchange at a time, the body handed over as it comes.

Written on httptools' parser, because the general client it replaces took most of what the gateway
added to a request and to each chunk (ADR 10). No redirects, cookies, compression or upgrades.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from gateway.errors import UpstreamError, WorkerLostError, WorkerTimeoutError
from gateway.upstream.silence import SilenceWatch

_MOST_HELD_BYTES = 2**17
"""Of a body that nobody takes; then the socket is not read on until somebody does."""
_MOST_HEAD_BYTES = 2**16
_BODY_HEADERS = frozenset((b"content-length", b"transfer-encoding"))


Tap = Callable[[bytes], bool]
"""Is offered bytes where they come off the socket; takes all of them (True) or leaves them."""


class Connection(asyncio.Protocol):
    """A connection.

    Attributes:
        status: Of the answer whose head has come.
        headers: Its headers, with lower-case names.
    """

    def __init__(self, *, silence_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._silence_seconds = silence_seconds
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._tap: Tap | None = None
        self._busy = self._lost = self._keeps_alive = False
        self._begin()

    def _begin(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._held_bytes = self._head_bytes = 0
        self._head_done = self._complete = self._ends_with_connection = self._paused = False
        self._error: UpstreamError | None = None

    # What its user calls

    @property
    def is_reusable(self) -> bool:
        """Whether another exchange may follow: the last one came to its end, and both stayed."""
        return not (self._busy or self._lost or self._transport.is_closing())

    async def exchange(self, request: bytes) -> None:
        """Send a whole request and wait for the head of its answer; `release` must follow.

        Raises:
            WorkerLostError: The connection broke before the head came.
            WorkerTimeoutError: Nothing came for too long.
            UpstreamError: What came is not HTTP.
        """
        self._begin()
        self._busy = True
        self._silence = SilenceWatch(self._loop, self._silence_seconds, self._give_up)
        if self._lost:
            raise WorkerLostError("The engine closed the connection at once.", sent=False)
        self._transport.write(request)
        while not self._head_done:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def read_some(self, tap: Tap | None = None) -> bytes:
        """The next bytes of the body, as many as have come; none at its end.

        Args:
            tap: Is offered what comes while this waits; what it takes wakes nobody and is not
                returned. That is the better half of what a chunk of a stream costs.

        Raises:
            UpstreamError: As `exchange`, once all that came before was read.
        """
        self._tap = tap
        try:
            return await self._read_some()
        finally:
            self._tap = None

    async def _read_some(self) -> bytes:
        while not self._pieces:
            if self._complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._held_bytes = 0
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()
        return data

    def release(self) -> None:
        """The exchange is over; before the answer's end that closes the connection."""
        self._silence.stop()
        # Both know this wire, the error by the frames that it has passed; with them in its hands a
        # wire would have to wait for the garbage collector.
        del self._silence
        self._error = None
        if self._complete and self._keeps_alive and not self._lost:
            self._busy = False
        else:
            self.close()

    def close(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    # asyncio's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; whoever waits goes on."""
        if not self._busy or self._complete:
            self._lost = True  # nobody asked for this: it must not be taken for the next answer
            self.close()
            return
        if not self._head_done:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._lost = True
            if not self._complete:
                self._fail(_bad_answer(), error)
        if not self._head_done and self._head_bytes > _MOST_HEAD_BYTES:
            self._fail(_bad_answer(), None)
        if self._tap is None or not self._tapped(self._tap):
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of the body, or of hopes for it."""
        self._lost = True
        if self._head_done and self._ends_with_connection and exc is None:
            self._complete = True
        elif not self._complete:
            self._fail(_lost(), exc)
        self._wake()
        del self._parser  # it knows this wire, too: now both can go

    # httptools' callbacks

    def on_message_begin(self) -> None:
        """Refuse a second answer to one request."""
        if self._head_done:
            raise ValueError("more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is there, unless it is an interim one."""
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers = []
        elif self._head_bytes > _MOST_HEAD_BYTES and _size_of(self.headers) > _MOST_HEAD_BYTES:
            raise ValueError("a head that is too large")
        else:
            self._head_done = True
            names = {name for name, _ in self.headers}
            self._ends_with_connection = names.isdisjoint(_BODY_HEADERS)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._pieces.append(body)
        self._held_bytes += len(body)
        if self._held_bytes > _MOST_HELD_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The answer is whole, unless it was an interim one."""
        self._complete = self._head_done
        self._keeps_alive = self._parser.should_keep_alive()

    # Waiting

    async def _wait(self) -> None:
        """Wait until something happens, and count that as the worker's silence."""
        self._waiter = self._loop.create_future()
        self._silence.waiting_since = self._loop.time()
        try:
            await self._waiter
        finally:
            self._waiter = self._silence.waiting_since = None

    def _tapped(self, tap: Tap) -> bool:
        """Offer what has come; whether there is nothing left to wake up for."""
        if len(self._pieces) != 1 or not tap(self._pieces[0]):
            return False
        self._pieces.clear()
        self._held_bytes = 0
        self._silence.waiting_since = self._loop.time()
        return not self._complete and self._error is None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _give_up(self) -> None:
        self._fail(WorkerTimeoutError("The engine stayed silent for too long."), None)
        self._wake()

    def _fail(self, error: UpstreamError, cause: Exception | None) -> None:
        if self._error is None:
            self._error = error
            self._error.__cause__ = cause


def _lost() -> WorkerLostError:
    return WorkerLostError("The connection to the engine was lost.", sent=True)


def _bad_answer() -> UpstreamError:
    return UpstreamError("The engine sent a bad answer.")


def _size_of(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)
