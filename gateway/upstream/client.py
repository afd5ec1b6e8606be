"""HTTP to one worker, over TCP or its Unix socket. The only file that opens connections."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from gateway.errors import InvalidRequestError, UpstreamError, WorkerLostError, WorkerTimeoutError
from gateway.upstream.connection import Connection

# vLLM's server closes idle connections after 5 s; the gateway closes them first.
_KEEP_ALIVE_SECONDS = 4.0
_MAX_SMALL_BYTES = 2**24
_JSON = {"content-type": "application/json"}
_LINE_END = re.compile(r"[\r\n]")
_NOT_FORWARDED = frozenset(
    # Hop-by-hop (RFC 9110, section 7.6.1), or set by the gateway itself.
    b"connection keep-alive proxy-authenticate proxy-connection te trailer transfer-encoding "
    b"upgrade content-length date server set-cookie x-request-id".split()
)


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """Where a worker listens.

    Attributes:
        name: For logs and metrics: host and port, or `local` for the gateway's own worker.
        url: Base URL. With a Unix socket its host is only used for the `Host` header.
        socket_path: The Unix socket, or None for TCP.
    """

    name: str
    url: str
    socket_path: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectionTimeouts:
    """Longest time to connect, and longest silence of a worker."""

    connect_seconds: float
    silence_seconds: float


class WorkerAnswer:
    """An answer whose head has arrived; the body is read once, by `feed`, `read_some` or `read`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.status = connection.status
        self.is_event_stream = _media_type(connection.headers) == b"text/event-stream"
        self.feed = connection.feed
        self.read_some = connection.read_some

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers to forward to the client."""
        headers = self._connection.headers
        return [(name, value) for name, value in headers if name not in _NOT_FORWARDED]

    async def read(self, *, max_bytes: int) -> bytes:
        """The whole body.

        Raises:
            UpstreamError: It is longer than `max_bytes`, or it broke off.
        """
        pieces = bytearray()
        while data := await self.read_some():
            pieces += data
            if len(pieces) > max_bytes:
                raise UpstreamError("The engine sent an answer that is too large.")
        return bytes(pieces)


class WorkerClient:
    """An HTTP client for one worker, with a pool of connections.

    Must be made, used and closed on one event loop.
    """

    def __init__(
        self, address: WorkerAddress, timeouts: ConnectionTimeouts, *, api_key: str | None
    ) -> None:
        self.address = address
        self._timeouts = timeouts
        self._parts = urlsplit(address.url)
        self._host_line = f"host: {self._parts.netloc}"
        self._authorization = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        self._tls = ssl.create_default_context() if self._parts.scheme == "https" else None
        self._idle: dict[Connection, asyncio.TimerHandle] = {}  # most recently used last
        self._open: set[Connection] = set()
        self._is_shut = False

    def shut(self) -> None:
        """Refuse every new request, as if the worker did not listen."""
        self._is_shut = True

    def reopen(self) -> None:
        """Accept requests again."""
        self._is_shut = False

    async def close(self) -> None:
        """Close every connection."""
        for timer in self._idle.values():
            timer.cancel()
        for connection in self._open:
            connection.close()
        self._idle.clear()
        self._open.clear()

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[WorkerAnswer]:
        """Send a request and wait for the head of its answer.

        Leaving the block before the end of the body closes the connection, and vLLM aborts the
        request.

        Raises:
            WorkerLostError: The connection failed, or broke before the head arrived.
            WorkerTimeoutError: The head did not arrive in time.
            UpstreamError: The answer is not HTTP.
        """
        return self._exchange(self._request("POST", path, headers, body))

    async def get(self, path: str, *, timeout_seconds: float) -> tuple[int, bytes]:
        """Send a small GET; returns status and body.

        Raises:
            UpstreamError: As `post`.
        """
        return await self._ask(self._request("GET", path, {}, None), timeout_seconds)

    async def call(self, path: str, body: bytes, *, timeout_seconds: float) -> int:
        """Send a small JSON POST; returns the status and ignores the body.

        Raises:
            UpstreamError: As `post`.
        """
        status, _ = await self._ask(self._request("POST", path, _JSON, body), timeout_seconds)
        return status

    async def get_json(self, path: str, *, timeout_seconds: float) -> dict[str, Any]:
        """Send a small GET; returns the JSON object in the answer.

        Raises:
            UpstreamError: As `post`, or the status is not 200, or the body is not a JSON object.
        """
        return _json_of(path, *await self.get(path, timeout_seconds=timeout_seconds))

    async def post_json(self, path: str, body: bytes, *, timeout_seconds: float) -> dict[str, Any]:
        """Send a JSON POST; returns the JSON object in the answer.

        Raises:
            UpstreamError: As `get_json`.
        """
        request = self._request("POST", path, _JSON, body)
        return _json_of(path, *await self._ask(request, timeout_seconds))

    async def _ask(self, request: bytes, timeout_seconds: float) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(timeout_seconds), self._exchange(request) as answer:
                return answer.status, await answer.read(max_bytes=_MAX_SMALL_BYTES)
        except TimeoutError as error:
            raise WorkerTimeoutError("The engine stayed silent for too long.") from error

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        lines = [f"{method} {quote(path)} HTTP/1.1", self._host_line]
        lines += [f"{name}: {value}" for name, value in {**headers, **self._authorization}.items()]
        if body is not None:
            lines.append(f"content-length: {len(body)}")
        if any(_LINE_END.search(line) for line in lines):
            raise InvalidRequestError("A header contains a line end.")  # uvicorn refuses it earlier
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")

    @asynccontextmanager
    async def _exchange(self, request: bytes) -> AsyncIterator[WorkerAnswer]:
        if self._is_shut:
            raise WorkerLostError("The engine is shutting down.", sent=False)
        connection = self._take_idle() or await self._connect()
        try:
            await connection.exchange(request)
            yield WorkerAnswer(connection)
        finally:
            connection.release()
            self._keep(connection)

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            if connection.is_reusable:
                return connection
            self._open.discard(connection)
        return None

    async def _connect(self) -> Connection:
        loop, path, host = asyncio.get_running_loop(), self.address.socket_path, self._parts
        connection = Connection(silence_seconds=self._timeouts.silence_seconds)
        try:
            async with asyncio.timeout(self._timeouts.connect_seconds):
                if path is not None:
                    await loop.create_unix_connection(lambda: connection, path)
                else:
                    port = host.port or (80 if self._tls is None else 443)
                    await loop.create_connection(
                        lambda: connection, host.hostname or "", port, ssl=self._tls
                    )
        except TimeoutError as error:
            raise WorkerLostError("The engine could not be reached in time.", sent=False) from error
        except OSError as error:
            raise WorkerLostError("The engine could not be reached.", sent=False) from error
        self._open.add(connection)
        return connection

    def _keep(self, connection: Connection) -> None:
        """Keep the connection for the next request, for a while."""
        if connection.is_reusable and connection in self._open:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(_KEEP_ALIVE_SECONDS, self._drop, connection)
            self._idle[connection] = timer
        else:
            self._open.discard(connection)

    def _drop(self, connection: Connection) -> None:
        del self._idle[connection]
        self._open.discard(connection)
        connection.close()


def _json_of(path: str, status: int, body: bytes) -> dict[str, Any]:
    if status != 200:
        raise UpstreamError(f"The engine answered {status} on {path}.")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UpstreamError(f"The engine sent no JSON on {path}.") from error
    if not isinstance(found, dict):
        raise UpstreamError(f"The engine sent no JSON object on {path}.")
    return found


def _media_type(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    found = next((value for name, value in headers if name == b"content-type"), b"")
    return found.partition(b";")[0].strip().lower()
