"""HTTP/1.1 on one connection to a worker: one exchange at a time, with a streamed body.

Uses httptools' parser directly: a general HTTP client accounted for most of the time that the
gateway added to a request and to each chunk (ADR 10). No redirects, cookies, compression or
upgrades.
"""

import asyncio
import contextlib
from collections.abc import Callable
from enum import Enum
from typing import cast

import httptools

from gateway.errors import UpstreamError, WorkerLostError, WorkerTimeoutError

_MAX_HEAD_BYTES = 2**16
_MAX_HELD_BYTES = 2**17
"""Above this, reading from the socket pauses until the body is read."""
_MAX_DRAINED_BYTES = 2**16
_DRAIN_SECONDS = 0.1
_BODY_HEADERS = frozenset((b"content-length", b"transfer-encoding"))

Receive = Callable[[bytes], bool]
"""Takes in bytes as they arrive; False: do not call it again until the reader asks."""


class State(Enum):
    """Where the connection is in an exchange."""

    IDLE = "idle"  # before the first request, or the last answer was read
    HEAD = "head"  # the request is sent; the head of the answer is awaited
    BODY = "body"  # the head has arrived; the body is arriving
    COMPLETE = "complete"  # the whole answer has arrived, and the connection can be kept
    CLOSED = "closed"  # nothing else will be read from the connection


# Names of their own, because Python 3.11 takes 0.1 us to look up a member, several times a chunk.
IDLE, HEAD, BODY, COMPLETE, CLOSED = State


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
        self._state = IDLE
        self._error: UpstreamError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waiting_since: float | None = None
        self._receive: Receive | None = None
        self._is_refused = False
        self._crash: Exception | None = None
        self._pieces: list[bytes] = []
        self._held_bytes = 0

    @property
    def is_idle(self) -> bool:
        """Whether an exchange may begin."""
        return self._state is IDLE and not self._transport.is_closing()

    # One exchange: send the request, read the head, read the body, and release the connection.

    async def exchange(self, request: bytes) -> None:
        """Send a whole request and wait for the head of its answer; `release` must follow.

        Raises:
            WorkerLostError: The connection broke before the head arrived.
            WorkerTimeoutError: The worker was silent for too long.
            UpstreamError: The answer is not HTTP.
        """
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._watch_silence()
        if self._state is not IDLE:
            raise WorkerLostError("The engine closed the connection at once.", sent=False)
        self._state = HEAD
        self._transport.write(request)
        while self._state is HEAD:
            await self._wait()
        if self.status == 0 and self._error is not None:
            raise self._error

    async def feed(self, receive: Receive) -> bool:
        """Give the body to `receive` as it arrives, without waking the waiting task.

        This saves most of the cost of a chunk.

        Returns:
            True when `receive` returned False; call it again to go on. False at the body's end.

        Raises:
            UpstreamError: As `exchange`, after everything that arrived before was received.
        """
        while True:
            if self._pieces:
                if not receive(self._take()):
                    return True
            elif self._error is not None:
                raise self._error
            elif self._state is not BODY:
                return False
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
            if self._error is not None:
                raise self._error
            if self._state is not BODY:
                return b""
            await self._wait()
        return self._take()

    async def drain(self) -> None:
        """Read the rest of the answer, if it is short and arrives at once.

        The end of a stream's body usually arrives just after its last event, when nobody reads any
        more. Without it the connection could not be kept.
        """
        if self._state is not BODY:
            return
        left = _MAX_DRAINED_BYTES
        # Nobody needs the rest: if it is late or broken, `release` closes the connection.
        with contextlib.suppress(TimeoutError, UpstreamError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while left > 0 and (data := await self.read_some()):
                    left -= len(data)

    def release(self) -> None:
        """End the exchange: keep the connection if the answer is complete, else close it.

        vLLM aborts a request when its connection closes, so it stops computing what nobody reads.
        """
        self._silence_timer.cancel()
        # These refer to this connection through their tracebacks: break the cycles.
        self._error = self._crash = None
        if self._state is COMPLETE:
            self._state = IDLE
            self._let_more_in()
        else:
            self.close()

    def give_up(self, error: UpstreamError) -> None:
        """End the exchange: the reader gets `error` after what has arrived."""
        self._fail(error, None)
        self._wake()

    def close(self) -> None:
        """Close the connection at once."""
        self._fail(_lost(), None)
        self._transport.abort()

    # What happens on the socket; asyncio calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and give what it found to the receiver or wake the reader."""
        if self._state is HEAD:
            self._head_bytes += len(data)
        elif self._state is not BODY:
            self.close()  # unsolicited: must not be read as the next answer
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(_bad_answer(), error)
        if self._state is HEAD and self._head_bytes > _MAX_HEAD_BYTES:
            self._fail(_bad_answer(), None)
        if self._receive is None or not self._is_received(self._receive):
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete a body that ends with the connection; otherwise fail."""
        if not (self._state is BODY and exc is None and self._ends_with_connection()):
            self._fail(_lost(), exc)
        self._state = CLOSED
        self._wake()
        del self._parser  # breaks a reference cycle

    # What the parser finds; httptools calls these.

    def on_message_begin(self) -> None:
        """Refuse a second answer to one request."""
        if self._state is not HEAD:
            raise ValueError("more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; trailers, which follow the body, are ignored."""
        if self._state is HEAD:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Complete the head, unless it is interim (1xx)."""
        status = self._parser.get_status_code()
        if status < 200:
            self.headers = []
        elif self._head_bytes > _MAX_HEAD_BYTES and _size_of(self.headers) > _MAX_HEAD_BYTES:
            raise ValueError("a head that is too large")
        else:
            self.status = status
            self._state = BODY

    def on_body(self, body: bytes) -> None:
        """Store a piece of the body; pause the socket if too much is held."""
        self._pieces.append(body)
        held_bytes = self._held_bytes
        self._held_bytes = held_bytes + len(body)
        if held_bytes <= _MAX_HELD_BYTES < self._held_bytes:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Complete the answer, unless it was interim (1xx)."""
        if self._state is BODY:
            keeps_alive = self._parser.should_keep_alive()
            self._state = COMPLETE if keeps_alive else CLOSED

    def _ends_with_connection(self) -> bool:
        return _BODY_HEADERS.isdisjoint(name for name, _ in self.headers)

    def _fail(self, error: UpstreamError, cause: Exception | None) -> None:
        """Read nothing else; the reader gets `error`, unless its answer is complete already."""
        if self._state in (HEAD, BODY):
            self._error = error
            self._error.__cause__ = cause
        self._state = CLOSED

    # The reader waits.

    async def _wait(self) -> None:
        """Wait for an event; the time counts as the worker's silence."""
        self._waiter = self._loop.create_future()
        self._waiting_since = self._loop.time()
        try:
            await self._waiter
        finally:
            self._waiter = self._waiting_since = None

    def _is_received(self, receive: Receive) -> bool:
        """Give what has arrived to `receive`; True if the reader need not wake."""
        if not self._pieces:
            return False
        try:
            if not receive(self._take()):
                self._receive, self._is_refused = None, True  # more may arrive before it wakes
        except Exception as error:  # noqa: BLE001  # raised again by `feed`, in the reader's task
            self._receive, self._crash = None, error
        self._waiting_since = self._loop.time()
        return self._receive is not None and self._state is BODY

    def _take(self) -> bytes:
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._let_more_in()
        return data

    def _let_more_in(self) -> None:
        """All pieces have been read: resume reading from the socket if it was paused."""
        self._pieces.clear()
        if self._held_bytes > _MAX_HELD_BYTES and not self._transport.is_closing():
            self._transport.resume_reading()
        self._held_bytes = 0

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _watch_silence(self) -> None:
        """Give up when one wait has lasted for `silence_seconds`.

        A timer for each chunk, as HTTP clients set it, costs more than reading the chunk. This one
        looks now and then when the present wait began. Time in which nobody waits does not count:
        then the client is slow, not the worker.
        """
        since, now = self._waiting_since, self._loop.time()
        due = (now if since is None else since) + self._silence_seconds
        if due <= now:
            self.give_up(WorkerTimeoutError("The engine stayed silent for too long."))
        else:
            self._silence_timer = self._loop.call_at(due, self._watch_silence)


def _lost() -> WorkerLostError:
    return WorkerLostError("The connection to the engine was lost.", sent=True)


def _bad_answer() -> UpstreamError:
    return UpstreamError("The engine sent a bad answer.")


def _size_of(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)
