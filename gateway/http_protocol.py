"""uvicorn's HTTP protocol with fewer packets, direct writes for streams, and OpenAI's errors."""

import asyncio
import weakref
from collections.abc import MutableMapping
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.api import DIRECT_BODY
from gateway.errors import InvalidRequestError
from gateway.protocol import error_body


class GatewayProtocol(HttpToolsProtocol):
    """Serves one client connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own signature
        """Put a `HeadCork` between uvicorn and the socket."""
        super().connection_made(transport)
        self.transport = HeadCork(transport, self.loop)  # type: ignore[assignment]  # same methods

    def on_headers_complete(self) -> None:
        """Add the direct writer to the scope of the new request."""
        super().on_headers_complete()
        scope = cast(MutableMapping[str, Any], self.cycle.scope)  # uvicorn lists ASGI's own keys
        scope[DIRECT_BODY] = DirectBody(self.cycle).write

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP."""
        body = error_body(InvalidRequestError("The request is not valid HTTP."))
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
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
