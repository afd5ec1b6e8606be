"""HTTP to one worker, over TCP or its Unix socket. The only file that opens connections."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from gateway.errors import UpstreamError
from gateway.upstream.http_errors import CLIENT_ERRORS, mapped_errors, upstream_error
from gateway.upstream.silence import SilenceWatch

# Below the 5 s after which vLLM's server closes an idle connection, so that we close it first.
_KEEP_ALIVE_SECONDS = 4.0
_READ_BUFFER_BYTES = 2**16
_OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding")
_NOT_FORWARDED = frozenset(
    # Hop-by-hop (RFC 9110, section 7.6.1), and what our own server writes anew.
    b"connection keep-alive proxy-authenticate proxy-connection te trailer transfer-encoding "
    b"upgrade content-length date server set-cookie x-request-id".split()
)


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """Where a worker listens.

    Attributes:
        name: For logs and metrics: host and port, or `local` for the worker we started.
        url: Base URL; of a Unix socket only the path part of a request counts.
        socket_path: The Unix socket, or None for TCP.
    """

    name: str
    url: str
    socket_path: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectionTimeouts:
    """Bounds in seconds: to connect, and between two reads of an answer."""

    connect_seconds: float
    silence_seconds: float


class WorkerAnswer:
    """An answer whose head has arrived; its body is read once, by `read_some` or `read`."""

    def __init__(self, response: aiohttp.ClientResponse, *, silence_seconds: float) -> None:
        self._response = response
        self._content = response.content
        self._loop = asyncio.get_running_loop()
        self._silence = SilenceWatch(self._loop, silence_seconds, self._give_up)
        if (held := response.connection) is not None and held.protocol is not None:
            held.protocol.read_timeout = None  # it watched over the head; the body is ours
        self.status = response.status
        self.is_event_stream = response.content_type == "text/event-stream"

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers that go on to the client."""
        return [
            (lower, value)
            for name, value in self._response.raw_headers
            if (lower := name.lower()) not in _NOT_FORWARDED
        ]

    async def read_some(self) -> bytes:
        """The next bytes of the body, as many as have come; none at its end.

        Raises:
            WorkerLostError: The connection broke before the body's end.
            WorkerTimeoutError: Nothing came for too long.
        """
        self._silence.waiting_since = self._loop.time()
        try:
            return await self._content.readany()
        except CLIENT_ERRORS as error:  # not `mapped_errors`: this runs for every chunk
            raise upstream_error(error) from error
        finally:
            self._silence.waiting_since = None

    async def read(self, *, most_bytes: int) -> bytes:
        """The whole body.

        Raises:
            UpstreamError: It is longer than `most_bytes`, or it broke off.
        """
        pieces = bytearray()
        while data := await self.read_some():
            pieces += data
            if len(pieces) > most_bytes:
                raise UpstreamError("The engine sent an answer that is too large.")
        return bytes(pieces)

    def close(self) -> None:
        """Let go of it; before the body's end that closes the connection."""
        self._silence.stop()
        self._response.close()

    def _give_up(self) -> None:
        self._content.set_exception(aiohttp.SocketTimeoutError("the body stopped coming"))


class WorkerConnection:
    """Keeps connections to one worker.

    Must be made, used and closed on one event loop.
    """

    def __init__(
        self, address: WorkerAddress, timeouts: ConnectionTimeouts, *, api_key: str | None
    ) -> None:
        self.address = address
        self._base = URL(address.url)
        self._urls: dict[str, URL] = {}
        self._silence_seconds = timeouts.silence_seconds
        self._authorization = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        connector: aiohttp.BaseConnector
        if address.socket_path is not None:
            connector = aiohttp.UnixConnector(
                address.socket_path, limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS
            )
        else:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=timeouts.connect_seconds,
                sock_read=timeouts.silence_seconds,
            ),
            auto_decompress=False,
            read_bufsize=_READ_BUFFER_BYTES,
            skip_auto_headers=_OWN_HEADERS,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator[WorkerAnswer]:
        """Send a request and wait for the head of its answer.

        Leaving the block before the body's end closes the connection, which makes vLLM abort.

        Raises:
            WorkerLostError: No connection, or it broke before the head came.
            WorkerTimeoutError: No head in time.
            UpstreamError: What came is not HTTP.
        """
        with mapped_errors():
            response = await self._session.post(
                self._url(path),
                data=body,
                headers={**headers, **self._authorization},
                allow_redirects=False,
            )
        answer = WorkerAnswer(response, silence_seconds=self._silence_seconds)
        try:
            yield answer
        finally:
            answer.close()

    async def get(self, path: str, *, timeout_seconds: float) -> tuple[int, bytes]:
        """A small GET: status and body.

        Raises:
            UpstreamError: As `post`.
        """
        with mapped_errors():
            async with self._session.get(
                self._url(path),
                headers=self._authorization,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds),
                allow_redirects=False,
            ) as response:
                return response.status, await response.read()

    async def call(self, path: str, body: bytes, *, timeout_seconds: float) -> int:
        """A small JSON POST whose answer does not matter: its status.

        Raises:
            UpstreamError: As `post`.
        """
        with mapped_errors():
            async with self._session.post(
                self._url(path),
                data=body,
                headers={"content-type": "application/json", **self._authorization},
                timeout=aiohttp.ClientTimeout(total=timeout_seconds),
                allow_redirects=False,
            ) as response:
                await response.read()
                return response.status

    async def get_json(self, path: str, *, timeout_seconds: float) -> dict[str, Any]:
        """A small GET whose answer is a JSON object.

        Raises:
            UpstreamError: As `post`, or another status than 200, or no JSON object.
        """
        status, body = await self.get(path, timeout_seconds=timeout_seconds)
        if status != 200:
            raise UpstreamError(f"The engine answered {status} on {path}.")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise UpstreamError(f"The engine sent no JSON on {path}.") from error
        if not isinstance(found, dict):
            raise UpstreamError(f"The engine sent no JSON object on {path}.")
        return found

    def _url(self, path: str) -> URL:
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = self._base.with_path(path)
        return url
