"""uvicorn's HTTP protocol with fewer packets, a short way for streams, and errors as OpenAI's."""

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
        """Put the cork between uvicorn and the socket."""
        super().connection_made(transport)
        self.transport = HeadCork(transport, self.loop)  # type: ignore[assignment]  # same methods

    def on_headers_complete(self) -> None:
        """Give the request that begins its short way out."""
        super().on_headers_complete()
        scope = cast(MutableMapping[str, Any], self.cycle.scope)  # uvicorn lists ASGI's own keys
        scope[DIRECT_BODY] = DirectBody(self.cycle).write

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP at all."""
        body = error_body(InvalidRequestError("The request is not valid HTTP."))
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        )
        self.transport.write(body)
        self.transport.close()


class DirectBody:
    """The short way of a stream's chunks to the socket, past a dictionary and a chain of `send`s.

    It does what uvicorn's `send` does with a body message of a chunked answer that goes on. The
    cycle's scope holds it, so it does not hold the cycle.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = weakref.ref(cycle)

    def write(self, data: bytes) -> bool:
        """Send `data`; False if it has to be sent as a message: to wait, or to be refused."""
        cycle = self._cycle()
        if cycle is None:
            return False  # its answer has ended
        if cycle.flow.write_paused or not cycle.chunked_encoding or cycle.response_complete:
            return False
        if not data:
            return False  # an empty chunk would end the answer
        if not cycle.disconnected:
            cycle.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True


class HeadCork:
    """A transport that sends an answer's head together with the first bytes of its body.

    uvicorn writes them apart, and each write is a system call and a packet. The head is held
    until the next write, or until the event loop comes round, so it is never late.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        """Send, or hold if this is a head."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 ") and data.endswith(b"\r\n\r\n"):
            self._head = data
            self._loop.call_soon(self._send_head)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Send what is held, and close."""
        self._send_head()
        self._transport.close()

    def __getattr__(self, name: str) -> object:
        """Everything else is the transport's."""
        return getattr(self._transport, name)

    def _send_head(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)
