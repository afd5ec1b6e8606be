"""ASGI helpers for the routes: read key and body, write the response, detect a disconnect."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from starlette.types import Receive, Send

from gateway.errors import RequestTimeoutError
from gateway.types import Headers

DIRECT_BODY = "specgate.direct_body"
"""Key of the server's `DirectBody` in the ASGI scope."""

DirectBody = Callable[[bytes], bool]
"""Sends body bytes without an ASGI message; False if a message is needed."""


class ClientGoneError(Exception):
    """The client closed the connection before its answer was complete."""


def presented_key(headers: Mapping[bytes, bytes]) -> str | None:
    """Read the `Authorization` header; Anthropic's SDK sends `x-api-key` instead."""
    found = headers.get(b"authorization")
    if found is None and (key := headers.get(b"x-api-key")) is not None:
        found = b"Bearer " + key
    return None if found is None else found.decode("latin-1")


class AsgiSink:
    """A `Sink` over ASGI's `send`, or over `DirectBody` where the server allows it."""

    def __init__(self, send: Send, direct: DirectBody | None = None) -> None:
        self._send = send
        self._direct = direct
        self.started = False
        self.ended = False

    async def start(self, status: int, headers: Headers) -> None:
        """Send status line and headers."""
        self.started = True
        await self._send(
            {"type": "http.response.start", "status": status, "headers": list(headers)}
        )

    async def write(self, data: bytes) -> None:
        """Send body bytes; waits while the client's socket is full."""
        if not self.write_now(data):
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    def write_now(self, data: bytes) -> bool:
        """Send body bytes if that is possible without waiting."""
        return self._direct is not None and self._direct(data)

    async def end(self, data: bytes = b"") -> None:
        """Send the last bytes."""
        self.ended = True
        await self._send({"type": "http.response.body", "body": data, "more_body": False})


async def read_body(
    receive: Receive, hold: Callable[[int], None], *, timeout_seconds: float
) -> bytes:
    """The whole request body.

    Args:
        receive: ASGI's.
        hold: Called with the length of each piece, before it is kept.
        timeout_seconds: Longest time until the body is complete.

    Raises:
        RequestTimeoutError: The client took too long.
        ClientGoneError: The client disconnected.
        BodyTooLargeError: From the body limit around `receive`.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                piece = message.get("body", b"")
                hold(len(piece))
                body += piece
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError as error:
        raise RequestTimeoutError("The request body did not arrive in time.") from error


@asynccontextmanager
async def ended_by_disconnect(receive: Receive, sink: AsgiSink) -> AsyncIterator[None]:
    """Cancel the block when the client disconnects.

    Raises:
        ClientGoneError: The client disconnected. Other cancellations are not converted.
    """
    task = asyncio.current_task()
    assert task is not None
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        if not sink.ended:  # ASGI also sends "disconnect" once the response is complete
            gone = True
            task.cancel()

    watcher = asyncio.create_task(watch(), name="disconnect-watch")
    try:
        yield
    except asyncio.CancelledError as error:
        if not gone or task.uncancel() > 0:
            raise
        raise ClientGoneError from error
    finally:
        watcher.cancel()
