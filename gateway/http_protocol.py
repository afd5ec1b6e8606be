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

    The parser gets one request at a time: first its head, when that is complete, then its body. So
    heads have limits, an `Upgrade` line can be removed, and no request begins before the one in
    front of it is answered. With `Upgrade` the parser would take the body for another protocol; a
    server may ignore it (RFC 9110, section 7.8).
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own signature
        """Put a `ClientTransport` between uvicorn and the socket."""
        super().connection_made(transport)
        self._client = ClientTransport(transport, self.loop, self._is_unread)
        self.transport = self._client  # type: ignore[assignment]  # same methods
        self._waiting = bytearray()  # bytes that the parser has not got yet
        self._in_body = False
        self._body_left: int | None = None  # None: chunked, only the parser knows
        self._is_refused = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._end_head()
        super().connection_lost(exc)
        self._client.lost()

    def data_received(self, data: bytes) -> None:
        """Give the parser what belongs to the present request; keep the rest."""
        if self._is_refused or self.transport.is_closing():
            return
        self._waiting += data
        self._read()

    def _read(self) -> None:
        while self._waiting and not self._is_refused:
            if self._in_body:
                self._feed(self._take_body())
            elif self._is_answering():
                if len(self._waiting) > MOST_HEAD_BYTES:
                    self.flow.pause_reading()
                return
            elif (head := self._take_head()) is not None:
                self._feed(head)
            else:
                return

    def _feed(self, data: bytes) -> None:
        super().data_received(data)

    def _take_body(self) -> bytes:
        taken = bytes(self._waiting[: self._body_left])
        del self._waiting[: len(taken)]
        if self._body_left is not None:
            self._body_left -= len(taken)
        return taken

    def _take_head(self) -> bytes | None:
        """Take a head, without `Upgrade`; None if it is not complete, or refused."""
        self._unset_keepalive_if_required()
        waiting = self._waiting
        if not waiting[:1].isalpha() and waiting[:1] not in b"\r\n":
            return self._take(len(waiting))  # no request begins like that; the parser refuses it
        end = waiting.find(_HEAD_END, 0, MOST_HEAD_BYTES + len(_HEAD_END))
        if end < 0 and len(waiting) > MOST_HEAD_BYTES:
            self._refuse(HeadTooLargeError(f"The head is over {MOST_HEAD_BYTES >> 10} KiB."))
            return None
        if end < 0:
            self._begin_head()
            return None
        head = self._take(end + len(_HEAD_END))
        if head.count(b"\n") > MOST_HEADERS + 2:
            self._refuse(HeadTooLargeError(f"The head has more than {MOST_HEADERS} headers."))
            return None
        return _UPGRADE.sub(b"", head)

    def _take(self, count: int) -> bytes:
        self._end_head()
        taken = bytes(self._waiting[:count])
        del self._waiting[:count]
        return taken

    def _begin_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._waiting:
            self._refuse(RequestTimeoutError("The head of the request did not arrive in time."))
        else:
            self.transport.close()

    def on_message_begin(self) -> None:
        """Refuse a request that came in one packet with the end of a chunked body.

        Raises:
            ValueError: The parser turns it into its own error.
        """
        if self._in_body or self._is_answering():
            raise ValueError("another request behind a chunked one")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Check what the parser does not, and add the client's socket to the request's scope.

        Raises:
            ValueError: Another version than 1.0 and 1.1, not exactly one valid `Host` (RFC 9112,
                section 3.2), or CONNECT. The parser turns it into its own error.
        """
        version = self.parser.get_http_version()
        headers = dict(self.headers)
        hosts = [value for name, value in self.headers if name == b"host"]
        if version not in _VERSIONS or len(hosts) > 1 or (version == "1.1" and not hosts):
            raise ValueError("not a request of HTTP/1.0 or 1.1 with one Host")
        if not all(map(_HOST.fullmatch, hosts)) or self.parser.should_upgrade():
            raise ValueError("an invalid Host, or another protocol")
        self._in_body = True
        is_chunked = b"transfer-encoding" in headers
        self._body_left = None if is_chunked else int(headers.get(b"content-length", b"0"))
        super().on_headers_complete()
        scope = cast(MutableMapping[str, Any], self.cycle.scope)  # uvicorn lists ASGI's own keys
        scope[CLIENT_SOCKET] = ClientSocket(self.cycle)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Read the next request, or close if it was refused."""
        super().on_response_complete()
        if self._is_refused:
            self.transport.close()
        elif self._waiting and not self.transport.is_closing():
            self._read()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP."""
        self._refuse(InvalidRequestError("The request is not valid HTTP."))

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _is_unread(self) -> bool:
        return self._is_refused or self._in_body

    def _refuse(self, error: CallerError) -> None:
        """Answer a bad request with an error, and close.

        If the request in front of it is still running, the connection closes after its answer: the
        client would take the error for that.
        """
        self._end_head()
        self._is_refused = True
        if self._is_answering():
            if not self._in_body:
                return
            self.cycle.disconnected = True  # it is the running request whose body is broken
            self.cycle.message_event.set()
        if not self._is_answering() or not self.cycle.response_started:
            body = error_body(error)
            self.transport.write(
                _STATUS_LINES[error.status] + b"content-type: application/json\r\n"
                b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
            )
            self.transport.write(body)
        self.transport.close()


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
        del self._is_unread  # it refers to the protocol: break the cycle

    def __getattr__(self, name: str) -> object:
        """Forward everything else to the transport."""
        return getattr(self._transport, name)

    def _send_head(self) -> None:
        if self._head and not self._transport.is_closing():
            head, self._head = self._head, b""
            self._transport.write(head)
