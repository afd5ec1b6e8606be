"""A minimal streaming relay in ASGI, over either HTTP client; only measured, not used.

A server runs it by its factory: `uvicorn --factory bench.gateway.relay_skeleton:create_app`. The
environment names the upstream (RELAY_UPSTREAM) and the client (RELAY_CLIENT: aiohttp, httpx or
specgate, which is the connection of the gateway).
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import aiohttp
import httpx

from gateway.upstream import ConnectionTimeouts, WorkerAddress, WorkerAnswer, WorkerClient

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose body has not been read yet."""

    status: int
    content_type: str
    pieces: AsyncIterator[bytes]


class Client(Protocol):
    """An HTTP client, as far as a relay needs one."""

    def post(self, url: str, body: bytes) -> AbstractAsyncContextManager[Answer]:
        """Send `body` and yield the answer once its head is there."""

    async def close(self) -> None:
        """Close every connection."""


class AiohttpClient:
    """aiohttp, without limits and without decompression."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            auto_decompress=False, connector=aiohttp.TCPConnector(limit=0)
        )

    @asynccontextmanager
    async def post(self, url: str, body: bytes) -> AsyncIterator[Answer]:
        """Send `body` and yield the answer once its head is there."""
        async with self._session.post(url, data=body, headers=_JSON) as response:
            kind = response.headers["content-type"]
            yield Answer(response.status, kind, response.content.iter_any())

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()


class HttpxClient:
    """httpx, without limits and without decompression."""

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx.AsyncClient(limits=limits, timeout=None)  # a skeleton

    @asynccontextmanager
    async def post(self, url: str, body: bytes) -> AsyncIterator[Answer]:
        """Send `body` and yield the answer once its head is there."""
        async with self._client.stream("POST", url, content=body, headers=_JSON) as response:
            kind = response.headers["content-type"]
            yield Answer(response.status_code, kind, response.aiter_raw())

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()


class SpecgateClient:
    """The gateway's own connections."""

    def __init__(self) -> None:
        self._client: WorkerClient | None = None

    @asynccontextmanager
    async def post(self, url: str, body: bytes) -> AsyncIterator[Answer]:
        """Send `body` and yield the answer once its head is there."""
        parts = urlsplit(url)
        if self._client is None:
            address = WorkerAddress(parts.netloc, f"http://{parts.netloc}")
            self._client = WorkerClient(address, ConnectionTimeouts(5.0, 300.0), api_key=None)
        async with self._client.post(parts.path, body, _JSON) as answer:
            kind = dict(answer.headers)[b"content-type"].decode()
            yield Answer(answer.status, kind, _pieces(answer))

    async def close(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.close()


async def _pieces(answer: WorkerAnswer) -> AsyncIterator[bytes]:
    while data := await answer.read_some():
        yield data


CLIENTS: dict[str, Callable[[], Client]] = {
    "aiohttp": AiohttpClient,
    "httpx": HttpxClient,
    "specgate": SpecgateClient,
}


def create_app() -> App:
    """The relay that the environment describes."""
    upstream = os.environ["RELAY_UPSTREAM"]
    make_client = CLIENTS[os.environ["RELAY_CLIENT"]]
    opened: list[Client] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send, start=lambda: opened.append(make_client()))
            await opened.pop().close()
        elif scope["method"] == "GET":
            await _send_head(send, 200, "text/plain")
            await send({"type": "http.response.body", "body": b"ready"})
        else:
            await _relay(opened[0], upstream + scope["path"], receive, send)

    return app


async def _live(receive: Receive, send: Send, *, start: Callable[[], None]) -> None:
    await receive()
    start()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def _relay(client: Client, url: str, receive: Receive, send: Send) -> None:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    async with client.post(url, body) as answer:
        await _send_head(send, answer.status, answer.content_type)
        async for piece in answer.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _send_head(send: Send, status: int, content_type: str) -> None:
    headers = [(b"content-type", content_type.encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
