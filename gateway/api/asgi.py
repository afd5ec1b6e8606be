"""ASGI helpers for the routes: read key and body, write the response, detect a disconnect."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Receive, Send

from gateway.errors import BodyTooLargeError, RequestTimeoutError, UnsupportedMediaTypeError
from gateway.types import Headers

CLIENT_SOCKET = "specgate.client_socket"
"""Key of the server's `ClientSocket` in the ASGI scope."""


class ClientSocket(Protocol):
    """What the server can do with the client's connection that ASGI has no message for."""

    def write_now(self, data: bytes) -> bool:
        """Send body bytes without waiting; False if an ASGI message is needed."""

    def abort(self) -> None:
        """Close the connection at once; unsent bytes are lost."""


class ClientGoneError(Exception):
    """The client closed the connection before its answer was complete."""


def presented_key(headers: Mapping[bytes, bytes]) -> str | None:
    """Read the `Authorization` header; Anthropic's SDK sends `x-api-key` instead."""
    found = headers.get(b"authorization")
    if found is None and (key := headers.get(b"x-api-key")) is not None:
        found = b"Bearer " + key
    return None if found is None else found.decode("latin-1")


class AsgiSink:
    """A `Sink` over ASGI's `send`, and over a `ClientSocket` where the server has one."""

    def __init__(self, send: Send, socket: ClientSocket | None = None) -> None:
        self._send = send
        self._socket = socket
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
        return self._socket is not None and self._socket.write_now(data)

    async def end(self, data: bytes = b"") -> None:
        """Send the last bytes."""
        self.ended = True
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    def abort(self) -> None:
        """Close the client's connection at once."""
        if self._socket is not None:
            self._socket.abort()


@dataclass(frozen=True, slots=True)
class BodyPolicy:
    """Limits of a request's body.

    Attributes:
        max_bytes: Its size.
        total_seconds: From its first byte to its last.
        idle_seconds: Between two pieces.
    """

    max_bytes: int
    total_seconds: float
    idle_seconds: float


async def read_body(
    receive: Receive,
    headers: Mapping[bytes, bytes],
    hold: Callable[[int], None],
    policy: BodyPolicy,
) -> bytes:
    """The whole request body.

    Args:
        receive: ASGI's.
        headers: The request's headers.
        hold: Called with the length of each piece, before it is kept.
        policy: Limits.

    Raises:
        UnsupportedMediaTypeError: The body is compressed.
        BodyTooLargeError: It is over the limit, by its length or by what has arrived.
        RequestTimeoutError: The client took too long.
        ClientGoneError: The client disconnected.
    """
    if headers.get(b"content-encoding", b"identity").lower() not in (b"identity", b""):
        raise UnsupportedMediaTypeError("The request body must not be compressed.")
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced) > policy.max_bytes:
        raise _too_large(policy)
    pieces: list[bytes] = []
    size = 0
    loop = asyncio.get_running_loop()
    deadline = loop.time() + policy.total_seconds
    try:
        async with asyncio.timeout(None) as timeout:
            while True:
                timeout.reschedule(min(deadline, loop.time() + policy.idle_seconds))
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                piece = message.get("body", b"")
                size += len(piece)
                if size > policy.max_bytes:
                    raise _too_large(policy)
                hold(len(piece))
                pieces.append(piece)
                if not message.get("more_body", False):
                    return b"".join(pieces)
    except TimeoutError as error:
        raise RequestTimeoutError("The request body did not arrive in time.") from error


def _too_large(policy: BodyPolicy) -> BodyTooLargeError:
    return BodyTooLargeError(f"The request body is larger than {policy.max_bytes} bytes.")


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
