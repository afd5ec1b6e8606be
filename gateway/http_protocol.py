"""uvicorn's HTTP protocol with bounded heads, direct writes for streams, and OpenAI's errors."""

import asyncio
import re
import weakref
from collections.abc import MutableMapping
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.api import DIRECT_BODY
from gateway.errors import (
    CallerError,
    HeadTooLargeError,
    InvalidRequestError,
    RequestTimeoutError,
)
from gateway.protocol import error_body

MOST_HEAD_BYTES = 64 * 1024
MOST_HEADERS = 100
HEAD_SECONDS = 10.0
"""Time limit of a head: from the first byte, or from the connection for the first request."""

_HEAD_END = b"\r\n\r\n"
_UPGRADE = re.compile(rb"(?i)\nupgrade:[^\n]*")
_STATUS_LINES = {
    400: b"HTTP/1.1 400 Bad Request\r\n",
    408: b"HTTP/1.1 408 Request Timeout\r\n",
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
}


class GatewayProtocol(HttpToolsProtocol):
    """Serves one client connection.

    A head is given to the parser when it is complete. So its size and its time are limited, and an
    `Upgrade` header can be removed: after one, the parser would take the body for another protocol.
    A server may ignore `Upgrade` (RFC 9110, section 7.8).
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own signature
        """Put a `HeadCork` between uvicorn and the socket."""
        super().connection_made(transport)
        self.transport = HeadCork(transport, self.loop)  # type: ignore[assignment]  # same methods
        self._head = bytearray()
        self._expects_head = True
        self._pipelined_head_bytes: int | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer of the head."""
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Give the parser complete heads, and the bytes of bodies as they come."""
        if self._expects_head:
            whole = self._complete_head(data)
            if whole is None:
                return
            data = whole
        elif self._pipelined_head_bytes is not None:
            self._pipelined_head_bytes += len(data)
            if self._pipelined_head_bytes > MOST_HEAD_BYTES:
                self._refuse(HeadTooLargeError(f"The head is over {MOST_HEAD_BYTES >> 10} KiB."))
                return
        super().data_received(data)
        if self._pipelined_head_bytes is not None:
            self._begin_head()

    def _complete_head(self, data: bytes) -> bytes | None:
        """Take in bytes of a head; returns what to parse, None if nothing yet."""
        if self.transport.is_closing():
            return None
        self._unset_keepalive_if_required()
        searched = max(0, len(self._head) - len(_HEAD_END) + 1)
        self._head += data
        if not self._head[:1].isalpha() and self._head[:1] not in b"\r\n":
            refused = bytes(self._head)  # by the parser: no request begins like that
            self._end_head()
            return refused
        end = self._head.find(_HEAD_END, searched)
        if max(end, 0) > MOST_HEAD_BYTES or (end < 0 and len(self._head) > MOST_HEAD_BYTES):
            self._refuse(HeadTooLargeError(f"The head is over {MOST_HEAD_BYTES >> 10} KiB."))
            return None
        if end < 0:
            self._begin_head()
            return None
        head, rest = bytes(self._head[:end]), bytes(self._head[end:])
        self._end_head()
        if head.count(b"\n") > MOST_HEADERS:
            self._refuse(HeadTooLargeError(f"The head has more than {MOST_HEADERS} headers."))
            return None
        return _UPGRADE.sub(b"", head) + rest

    def _begin_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _end_head(self) -> None:
        self._head.clear()
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._head or self._pipelined_head_bytes is not None:
            self._refuse(RequestTimeoutError("The head of the request did not arrive in time."))
        else:
            self.transport.close()

    def on_message_begin(self) -> None:
        """Count the bytes of a head that began behind another request, in the same packet."""
        self._expects_head = False
        self._pipelined_head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Add the direct writer to the scope of the new request."""
        self._pipelined_head_bytes = None
        self._end_head()
        super().on_headers_complete()
        scope = cast(MutableMapping[str, Any], self.cycle.scope)  # uvicorn lists ASGI's own keys
        scope[DIRECT_BODY] = DirectBody(self.cycle).write

    def on_message_complete(self) -> None:
        """Expect the next request."""
        self._expects_head = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP."""
        self._refuse(InvalidRequestError("The request is not valid HTTP."))

    def _unsupported_upgrade_warning(self) -> None:
        """Refuse CONNECT, and an `Upgrade` in a head that came in one packet with a request."""
        self.send_400_response("")

    def _refuse(self, error: CallerError) -> None:
        self._end_head()
        body = error_body(error)
        self.transport.write(
            _STATUS_LINES[error.status] + b"content-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        )
        self.transport.write(body)
        self.transport.close()


class DirectBody:
    """Writes a stream's chunks to the socket without an ASGI message and the chain of `send`s.

    It does what uvicorn's `send` does with a body message that has `more_body`, in a chunked
    response. The cycle's scope refers to it, so it refers to the cycle weakly.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = weakref.ref(cycle)

    def write(self, data: bytes) -> bool:
        """Send `data`; False if an ASGI message is needed, which may wait or fail."""
        cycle = self._cycle()
        if cycle is None:
            return False  # the response has ended
        if cycle.flow.write_paused or not cycle.chunked_encoding or cycle.response_complete:
            return False
        if not data:
            return False  # an empty chunk would end the response
        if not cycle.disconnected:
            cycle.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True


class HeadCork:
    """A transport that sends the head of a response together with the first bytes of its body.

    uvicorn writes them separately, and each write is a system call and a packet. The head is held
    until the next write, or until the next turn of the event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        """Send `data`, or hold it if it is a head."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 ") and data.endswith(b"\r\n\r\n"):
            self._head = data
            self._loop.call_soon(self._send_head)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Send the held head, and close."""
        self._send_head()
        self._transport.close()

    def __getattr__(self, name: str) -> object:
        """Forward everything else to the transport."""
        return getattr(self._transport, name)

    def _send_head(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)
