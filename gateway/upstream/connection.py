"""HTTP/1.1 on one connection to a worker: one exchange at a time, with a streamed body.

Uses httptools' parser directly: a general HTTP client accounted for most of the time that the
gateway added to a request and to each chunk (ADR 10). No redirects, cookies, compression or
upgrades.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from gateway.errors import UpstreamError, WorkerLostError, WorkerTimeoutError
from gateway.upstream.silence import SilenceWatch

_MAX_HELD_BYTES = 2**17
"""Above this, reading from the socket pauses until the body is read."""
_MAX_HEAD_BYTES = 2**16
_BODY_HEADERS = frozenset((b"content-length", b"transfer-encoding"))


Receive = Callable[[bytes], bool]
"""Takes in bytes as they arrive; False: do not call it again until the reader asks."""


class Connection(asyncio.Protocol):
    """One connection.

    Attributes:
        status: Status of the current answer, once its head has arrived.
        headers: Its headers, with lower-case names.
    """

    def __init__(self, *, silence_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._silence_seconds = silence_seconds
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._receive: Receive | None = None
        self._is_refused = False
        self._busy = self._lost = self._keeps_alive = False
        self._begin()

    def _begin(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._held_bytes = self._head_bytes = 0
        self._head_done = self._complete = self._ends_with_connection = self._paused = False
        self._error: UpstreamError | None = None
        self._crash: Exception | None = None

    # The exchange, in order

    @property
    def is_reusable(self) -> bool:
        """Whether another exchange may follow: the last one is complete and the connection open."""
        return not (self._busy or self._lost or self._transport.is_closing())

    async def exchange(self, request: bytes) -> None:
        """Send a whole request and wait for the head of its answer; `release` must follow.

        Raises:
            WorkerLostError: The connection broke before the head arrived.
            WorkerTimeoutError: The worker was silent for too long.
            UpstreamError: The answer is not HTTP.
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

    async def feed(self, receive: Receive) -> bool:
        """Give the body to `receive` as it arrives, without waking the waiting task.

        Returns:
            True when `receive` returned False; call it again to go on. False at the body's end.

        Raises:
            UpstreamError: As `exchange`, after everything that arrived before was received.
        """
        while True:
            if self._pieces:
                if not receive(self._take()):
                    return True
            elif self._complete:
                return False
            elif self._error is not None:
                raise self._error
            else:
                self._receive, self._is_refused = receive, False
                try:
                    await self._wait()
                finally:
                    self._receive = None
                if self._crash is not None:
                    raise self._crash
                if self._is_refused:
                    return True

    async def read_some(self) -> bytes:
        """The next bytes of the body, all that have arrived; empty at its end.

        Raises:
            UpstreamError: As `exchange`, after everything that arrived before was read.
        """
        while not self._pieces:
            if self._complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()
        return self._take()

    def _take(self) -> bytes:
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._let_more_in()
        return data

    def _let_more_in(self) -> None:
        """All pieces have been read: resume reading from the socket if it was paused."""
        self._pieces.clear()
        self._held_bytes = 0
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def release(self) -> None:
        """End the exchange; closes the connection if the answer is incomplete."""
        self._silence.stop()
        # Both refer back to this connection (the error through its traceback): break the cycles.
        del self._silence
        self._error = self._crash = None
        if self._complete and self._keeps_alive and not self._lost:
            self._busy = False
        else:
            self.close()

    def close(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    # asyncio's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and wake the reader."""
        if not self._busy or self._complete:
            self._lost = True  # unsolicited: must not be read as the next answer
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
        if not self._head_done and self._head_bytes > _MAX_HEAD_BYTES:
            self._fail(_bad_answer(), None)
        if self._receive is None or not self._is_received(self._receive):
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete a body that ends with the connection; otherwise fail."""
        self._lost = True
        if self._head_done and self._ends_with_connection and exc is None:
            self._complete = True
        elif not self._complete:
            self._fail(_lost(), exc)
        self._wake()
        del self._parser  # breaks a reference cycle

    # httptools' callbacks

    def on_message_begin(self) -> None:
        """Refuse a second answer to one request."""
        if self._head_done:
            raise ValueError("more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Complete the head, unless it is interim (1xx)."""
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers = []
        elif self._head_bytes > _MAX_HEAD_BYTES and _size_of(self.headers) > _MAX_HEAD_BYTES:
            raise ValueError("a head that is too large")
        else:
            self._head_done = True
            names = {name for name, _ in self.headers}
            self._ends_with_connection = names.isdisjoint(_BODY_HEADERS)

    def on_body(self, body: bytes) -> None:
        """Store a piece of the body."""
        self._pieces.append(body)
        self._held_bytes += len(body)
        if self._held_bytes > _MAX_HELD_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Complete the answer, unless it was interim (1xx)."""
        self._complete = self._head_done
        self._keeps_alive = self._parser.should_keep_alive()

    # Waiting

    async def _wait(self) -> None:
        """Wait for an event; the time counts as the worker's silence."""
        self._waiter = self._loop.create_future()
        self._silence.waiting_since = self._loop.time()
        try:
            await self._waiter
        finally:
            self._waiter = self._silence.waiting_since = None

    def _is_received(self, receive: Receive) -> bool:
        """Give what has arrived to `receive`; True if the reader need not wake."""
        if not self._pieces:
            return False
        try:
            if not receive(self._take()):
                self._receive, self._is_refused = None, True  # more may arrive before it wakes
        except Exception as error:  # noqa: BLE001  # raised again by `feed`, in the reader's task
            self._crash = error
            return False
        self._silence.waiting_since = self._loop.time()
        return not (self._is_refused or self._complete or self._error is not None)

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
