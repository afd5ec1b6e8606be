"""One accepted connection: parses requests, answers them one at a time, can break on purpose.

Knows HTTP framing and nothing about models. Raw `asyncio.Protocol`, because a server framework
neither lets us cut an answer in the middle nor is fast enough to stay out of a measurement.
"""

import asyncio
import json
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import cast

import httptools

from tests.fakes.state import RecordedRequest

Answering = Coroutine[None, None, None]
_JSON_HEAD = b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: application/json\r\n"
_SETTLE_SECONDS = 0.01  # lets bytes reach the peer before a reset throws the socket away


class HttpConnection(asyncio.Protocol):
    """The server side of one connection.

    Args:
        serve: Answers a request: at once (returns None) or with the coroutine it returns.
        on_open: Called with the new connection; false resets it.
        on_close: Called when the connection is gone.
    """

    def __init__(
        self,
        serve: "Callable[[RecordedRequest, HttpConnection], Answering | None]",
        *,
        on_open: "Callable[[HttpConnection], bool]",
        on_close: "Callable[[HttpConnection], None]",
    ) -> None:
        self._serve = serve
        self._on_open = on_open
        self._on_close = on_close
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[RecordedRequest, bool]] = deque()
        self._current: RecordedRequest | None = None
        self._keep_alive = True
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._start_request()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._on_open(self):
            self._abort_with_reset()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._write_head(400, {"connection": "close", "content-length": "0"})
            self._transport.close()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._current is not None and not self._current.finished:
            self._current.aborted = True
            self._current.aborted_at = time.monotonic()
        self._waiting.clear()
        self._writable.set()
        if self._task is not None:
            self._task.cancel()
        self._on_close(self)

    # httptools callbacks

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        request = RecordedRequest(
            method=self._parser.get_method().decode(),
            path=self._url.decode("latin-1").partition("?")[0],
            headers=self._headers,
            body=self._body[0] if len(self._body) == 1 else b"".join(self._body),
            received_at=time.monotonic(),
        )
        self._waiting.append((request, bool(self._parser.should_keep_alive())))
        self._start_request()
        self._answer_next()

    def _start_request(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    # one answer after the other

    def _answer_next(self) -> None:
        while self._waiting and self._current is None:
            request, self._keep_alive = self._waiting.popleft()
            self._current = request
            answering = self._serve(request, self)
            if answering is not None:
                self._task = asyncio.get_running_loop().create_task(answering)
                self._task.add_done_callback(self._answered)
                return
            self._settle()

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None:
            context = {"message": "the fake worker failed to answer", "exception": failure}
            asyncio.get_running_loop().call_exception_handler(context)
            self._transport.abort()
            return
        self._settle()
        self._answer_next()

    def _settle(self) -> None:
        if self._current is not None:
            self._current.finished = not self._current.aborted
            self._current = None
        if not self._keep_alive:
            self._transport.close()

    # what an answer is made of

    def send_json(self, body: bytes) -> None:
        """Write a whole 200 answer in one go."""
        self._transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (_JSON_HEAD, len(body), body))

    def send_body(
        self, status: int, body: bytes, headers: Mapping[str, str], *, promised: int | None = None
    ) -> None:
        """Write a whole answer; `promised` overrides its Content-Length."""
        length = len(body) if promised is None else promised
        self._write_head(status, {**headers, "content-length": str(length)}, body)

    def send_error(
        self, status: int, body: Mapping[str, object], headers: Mapping[str, str]
    ) -> None:
        """Write a JSON error."""
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        self.send_body(status, text, {"content-type": "application/json", **headers})

    def begin_stream(self, status: int, headers: Mapping[str, str]) -> None:
        """Write the head of an event stream."""
        stream = {
            "content-type": "text/event-stream; charset=utf-8",
            "transfer-encoding": "chunked",
        }
        self._write_head(status, {**stream, **headers})

    async def send_piece(self, piece: bytes) -> None:
        """Write one HTTP chunk, waiting while the peer does not read."""
        if not self._writable.is_set():
            await self._writable.wait()
        self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))

    def end_stream(self) -> None:
        """End the body of an event stream."""
        self._transport.write(b"0\r\n\r\n")

    async def drop(self, *, reset: bool) -> None:
        """Close the connection, after what was written, or reset it."""
        if self._current is not None:
            self._current.finished = True
            self._current = None
        if not reset:
            self._transport.close()
            return
        await asyncio.sleep(_SETTLE_SECONDS)
        self._abort_with_reset()

    def close_now(self) -> None:
        """Close as the death of a process does: at once, in the middle of whatever runs."""
        self._current = None  # it is not the peer who went away
        self._transport.abort()

    def _abort_with_reset(self) -> None:
        raw = self._transport.get_extra_info("socket")
        if raw.family != socket.AF_UNIX:  # a Unix socket knows no reset: the peer sees the end
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _write_head(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "server: uvicorn"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._transport.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
