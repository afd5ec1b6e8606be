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

# Below the 5 s after which vLLM's server closes an idle connection, so that we close it first.
_KEEP_ALIVE_SECONDS = 4.0
_MOST_SMALL_BYTES = 2**24
_JSON = {"content-type": "application/json"}
_LINE_END = re.compile(r"[\r\n]")
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
    """Bounds in seconds: to connect, and for which a worker may stay silent."""

    connect_seconds: float
    silence_seconds: float


class WorkerAnswer:
    """An answer whose head has arrived; its body is read once, by `read_some` or `read`."""

    def __init__(self, wire: Connection) -> None:
        self._wire = wire
        self.status = wire.status
        self.is_event_stream = _media_type(wire.headers) == b"text/event-stream"
        self.read_some = wire.read_some  # itself, because it runs for every chunk

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers that go on to the client."""
        return [(name, value) for name, value in self._wire.headers if name not in _NOT_FORWARDED]

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


class WorkerClient:
    """Keeps connections to one worker.

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
        self._idle: dict[Connection, asyncio.TimerHandle] = {}  # the latest used comes last
        self._open: set[Connection] = set()
        self._is_shut = False

    def shut(self) -> None:
        """Refuse every request that is not yet running, as if nobody listened."""
        self._is_shut = True

    def reopen(self) -> None:
        """Take requests again."""
        self._is_shut = False

    async def close(self) -> None:
        """Close every connection."""
        for timer in self._idle.values():
            timer.cancel()
        for wire in self._open:
            wire.close()
        self._idle.clear()
        self._open.clear()

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[WorkerAnswer]:
        """Send a request and wait for the head of its answer.

        Leaving the block before the body's end closes the connection, which makes vLLM abort.

        Raises:
            WorkerLostError: No connection, or it broke before the head came.
            WorkerTimeoutError: No head in time.
            UpstreamError: What came is not HTTP.
        """
        return self._exchange(self._request("POST", path, headers, body))

    async def get(self, path: str, *, timeout_seconds: float) -> tuple[int, bytes]:
        """A small GET: status and body.

        Raises:
            UpstreamError: As `post`.
        """
        return await self._ask(self._request("GET", path, {}, None), timeout_seconds)

    async def call(self, path: str, body: bytes, *, timeout_seconds: float) -> int:
        """A small JSON POST whose answer does not matter: its status.

        Raises:
            UpstreamError: As `post`.
        """
        status, _ = await self._ask(self._request("POST", path, _JSON, body), timeout_seconds)
        return status

    async def get_json(self, path: str, *, timeout_seconds: float) -> dict[str, Any]:
        """A small GET whose answer is a JSON object.

        Raises:
            UpstreamError: As `post`, or another status than 200, or no JSON object.
        """
        return _json_of(path, *await self.get(path, timeout_seconds=timeout_seconds))

    async def post_json(self, path: str, body: bytes, *, timeout_seconds: float) -> dict[str, Any]:
        """A JSON POST whose answer is a JSON object that is held whole.

        Raises:
            UpstreamError: As `get_json`.
        """
        request = self._request("POST", path, _JSON, body)
        return _json_of(path, *await self._ask(request, timeout_seconds))

    async def _ask(self, request: bytes, timeout_seconds: float) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(timeout_seconds), self._exchange(request) as answer:
                return answer.status, await answer.read(most_bytes=_MOST_SMALL_BYTES)
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
            raise InvalidRequestError("A header holds a line end.")  # our own server refuses that
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")

    @asynccontextmanager
    async def _exchange(self, request: bytes) -> AsyncIterator[WorkerAnswer]:
        if self._is_shut:
            raise WorkerLostError("The engine is about to end.", sent=False)
        wire = self._take_idle() or await self._connect()
        try:
            await wire.exchange(request)
            yield WorkerAnswer(wire)
        finally:
            wire.release()
            self._keep(wire)

    def _take_idle(self) -> Connection | None:
        while self._idle:
            wire, timer = self._idle.popitem()
            timer.cancel()
            if wire.is_reusable:
                return wire
            self._open.discard(wire)
        return None

    async def _connect(self) -> Connection:
        loop, path, host = asyncio.get_running_loop(), self.address.socket_path, self._parts
        wire = Connection(silence_seconds=self._timeouts.silence_seconds)
        try:
            async with asyncio.timeout(self._timeouts.connect_seconds):
                if path is not None:
                    await loop.create_unix_connection(lambda: wire, path)
                else:
                    port = host.port or (80 if self._tls is None else 443)
                    await loop.create_connection(
                        lambda: wire, host.hostname or "", port, ssl=self._tls
                    )
        except TimeoutError as error:
            raise WorkerLostError("The engine could not be reached in time.", sent=False) from error
        except OSError as error:
            raise WorkerLostError("The engine could not be reached.", sent=False) from error
        self._open.add(wire)
        return wire

    def _keep(self, wire: Connection) -> None:
        """Have it ready for the next request, for a while."""
        if wire.is_reusable and wire in self._open:
            loop = asyncio.get_running_loop()
            self._idle[wire] = loop.call_later(_KEEP_ALIVE_SECONDS, self._forget, wire)
        else:
            self._open.discard(wire)

    def _forget(self, wire: Connection) -> None:
        del self._idle[wire]
        self._open.discard(wire)
        wire.close()


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
