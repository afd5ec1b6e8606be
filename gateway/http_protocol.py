"""uvicorn's HTTP protocol with bounded heads, writes that never wait, and OpenAI's errors."""

import asyncio
import re
import socket
import struct
import weakref
from collections.abc import Callable, MutableMapping
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.api import CLIENT_SOCKET
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

LINGER_SECONDS = 1.0
"""How long bytes are read and dropped before a connection is closed."""

_NO_LINGER = struct.pack("ii", 1, 0)
_HEAD_END = b"\r\n\r\n"
_VERSIONS = ("1.0", "1.1")
_HOST = re.compile(rb"[\w.~%!$&'()*+,;=:\[\]-]*")
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
        """Put a `ClientTransport` between uvicorn and the socket."""
        super().connection_made(transport)
        self._client = ClientTransport(transport, self.loop, self._is_unread)
        self.transport = self._client  # type: ignore[assignment]  # same methods
        self._head = bytearray()
        self._expects_head = True
        self._is_refused = False
        self._pipelined_head_bytes: int | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._end_head()
        self._client.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Give the parser complete heads, and the bytes of bodies as they come."""
        if self._is_refused or self.transport.is_closing():
            return
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
        """Check what the parser does not, and add the client's socket to the request's scope.

        Raises:
            ValueError: Another version than 1.0 and 1.1, not exactly one valid `Host` (RFC 9112,
                section 3.2), CONNECT, or an `Upgrade` in a head that came in one packet with the
                request in front of it. The parser turns it into its own error.
        """
        if self.parser.should_upgrade():
            raise ValueError("another protocol would follow")
        version = self.parser.get_http_version()
        hosts = [value for name, value in self.headers if name == b"host"]
        if version not in _VERSIONS or len(hosts) > 1 or (version == "1.1" and not hosts):
            raise ValueError("not a request of HTTP/1.0 or 1.1 with one Host")
        if not all(map(_HOST.fullmatch, hosts)):
            raise ValueError("an invalid Host")
        self._pipelined_head_bytes = None
        self._end_head()
        super().on_headers_complete()
        scope = cast(MutableMapping[str, Any], self.cycle.scope)  # uvicorn lists ASGI's own keys
        scope[CLIENT_SOCKET] = ClientSocket(self.cycle)

    def on_message_complete(self) -> None:
        """Expect the next request."""
        self._expects_head = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP."""
        self._refuse(InvalidRequestError("The request is not valid HTTP."))

    def on_response_complete(self) -> None:
        """Begin the next request, or close after the last one in front of a refused head."""
        is_last = not self.pipeline
        super().on_response_complete()
        if self._is_refused and is_last:
            self.transport.close()

    def _refuse(self, error: CallerError) -> None:
        """Answer what is no acceptable request with an error, and close.

        If requests in front of it are still running, the connection closes after their answers
        instead: the client would take the error for one of these.
        """
        self._end_head()
        self._is_refused = True
        if self._is_behind_another():
            return
        body = error_body(error)
        self.transport.write(
            _STATUS_LINES[error.status] + b"content-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        )
        self.transport.write(body)
        self.transport.close()

    def _is_unread(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return self._is_refused or (cycle is not None and cycle.more_body)

    def _is_behind_another(self) -> bool:
        """Whether requests in front of the refused one have to be answered first."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        if not cycle.more_body:
            return True
        # It is the latest request itself that is refused: its body is broken.
        if not self.pipeline:
            return False
        self.pipeline.popleft()
        return True


class ClientSocket:
    """Reaches past ASGI for what it has no message for: writes that never wait, and an abort.

    The cycle's scope refers to it, so it refers to the cycle weakly.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = weakref.ref(cycle)

    def write_now(self, data: bytes) -> bool:
        """Send `data` if the socket has room; False if an ASGI message is needed.

        It does what uvicorn's `send` does with a body message that has `more_body`, in a chunked
        response.
        """
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

    def abort(self) -> None:
        """Reset the connection; `close` would wait until the client has read the rest."""
        cycle = self._cycle()
        if cycle is None or cycle.disconnected:
            return
        cycle.disconnected = True  # uvicorn would report an incomplete response
        raw = cycle.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        cycle.transport.abort()


class ClientTransport:
    """uvicorn's transport, with two differences.

    The head of a response is sent together with the first bytes of its body. uvicorn writes them
    separately, and each write is a system call and a packet. The head is held until the next write,
    or until the next turn of the event loop.

    A close while the client is still sending waits for a moment. The kernel resets a connection
    that is closed with unread bytes, and the client would lose the answer that says why.

    Args:
        transport: The socket.
        loop: Its event loop.
        is_unread: Whether bytes of the client may still arrive.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        is_unread: Callable[[], bool],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._is_unread = is_unread
        self._head = b""
        self._closing: asyncio.TimerHandle | None = None

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
        if self.is_closing():
            return
        if not self._is_unread():
            self._transport.close()
            return
        self._transport.write_eof()
        self._transport.resume_reading()
        self._closing = self._loop.call_later(LINGER_SECONDS, self._transport.close)

    def is_closing(self) -> bool:
        """Whether nothing that arrives is read any more."""
        return self._closing is not None or self._transport.is_closing()

    def lost(self) -> None:
        """The connection is gone: stop waiting."""
        if self._closing is not None:
            self._closing.cancel()

    def __getattr__(self, name: str) -> object:
        """Forward everything else to the transport."""
        return getattr(self._transport, name)

    def _send_head(self) -> None:
        if self._head and not self._transport.is_closing():
            head, self._head = self._head, b""
            self._transport.write(head)
