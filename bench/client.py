"""A load client that costs little and times precisely: one keep-alive connection, raw bytes.

It keeps monotonic clock readings and the answer's bytes; what they mean is the report's business.
"""

import asyncio
import re
import time
from dataclasses import dataclass
from typing import Self, cast

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED_END = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer.

    Attributes:
        sent_ns: Clock when the request was handed to the socket.
        first_byte_ns: Clock when the first byte of the answer's body arrived.
        end_ns: Clock when the body was whole.
        status: HTTP status.
        body: The body as it stood on the wire, HTTP chunk framing included.
    """

    sent_ns: int
    first_byte_ns: int
    end_ns: int
    status: int
    body: bytes


class LoadConnection(asyncio.Protocol):
    """One keep-alive connection; one exchange at a time."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._answered: asyncio.Future[int] | None = None
        self._lost = False

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect to `port` on 127.0.0.1.

        Raises:
            OSError: Nobody listens, or the backlog is full.
        """
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    async def exchange(self, request: bytes, *, timeout_seconds: float) -> Exchange:
        """Send `request` and take the whole answer.

        Raises:
            TimeoutError: The answer was not whole in time.
            ConnectionError: The connection broke.
        """
        if self._lost:
            raise ConnectionResetError("the connection was closed between requests")
        self._parts.clear()
        self._body_begin = -1
        self._first_byte_ns = 0
        self._remaining = -1
        self._tail = b""
        self._answered = asyncio.get_running_loop().create_future()
        sent_ns = time.perf_counter_ns()
        self._transport.write(request)
        try:
            async with asyncio.timeout(timeout_seconds):
                end_ns = await self._answered
        except TimeoutError:
            self._lost = True  # late bytes would be taken for the next answer
            self._transport.abort()
            raise
        whole = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        return Exchange(
            sent_ns=sent_ns,
            first_byte_ns=self._first_byte_ns,
            end_ns=end_ns,
            status=self._status,
            body=whole[self._body_begin :],
        )

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the exchange that is running."""
        self._lost = True
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(ConnectionResetError("closed in mid-answer"))

    def data_received(self, data: bytes) -> None:
        """Note the time and look whether the answer is whole."""
        now_ns = time.perf_counter_ns()
        if self._answered is None or self._answered.done():
            return  # late bytes of an exchange that was given up
        self._parts.append(data)
        body = data
        if self._body_begin < 0:
            head_and_body = b"".join(self._parts)
            end = head_and_body.find(b"\r\n\r\n")
            if end < 0:
                return
            self._read_head(head_and_body[:end])
            self._body_begin = end + 4
            body = head_and_body[self._body_begin :]
        if body and not self._first_byte_ns:
            self._first_byte_ns = now_ns
        if self._is_whole(body):
            self._first_byte_ns = self._first_byte_ns or now_ns
            self._answered.set_result(now_ns)

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
        self._tail = (self._tail + body[-5:])[-5:]
        return self._tail == _CHUNKED_END
