"""HTTP to one worker, over TCP or its Unix socket. Raises only our own errors.

Requests of clients use our own connections, where each chunk counts (ADR 10). Everything else is
small and rare (probes, models, tokenizing, metrics) and uses httpx.
"""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from gateway.errors import (
    InvalidRequestError,
    UpstreamError,
    WorkerBusyError,
    WorkerLostError,
    WorkerTimeoutError,
)
from gateway.upstream.connection import Connection
from gateway.upstream.connection_pool import (
    KEEP_ALIVE_SECONDS,
    ConnectionPool,
    ConnectionTimeouts,
    WorkerAddress,
)

_MAX_SMALL_BYTES = 2**24
_MAX_RETRY_AFTER_SECONDS = 60
_JSON = {"content-type": "application/json"}
_LINE_END = re.compile(r"[\r\n]")
_FORWARDED = frozenset((b"content-type", b"content-encoding", b"content-disposition"))
_FORWARDED_PREFIX = b"openai-"

HTTPX_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, httpx.StreamError)
"""The base classes of all of httpx's exceptions."""


class WorkerAnswer:
    """An answer whose head has arrived; the body is read once, by `feed`, `read_some` or `read`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.status = connection.status
        self.is_event_stream = _media_type(connection.headers) == b"text/event-stream"
        self.feed = connection.feed
        self.read_some = connection.read_some
        self.give_up = connection.give_up

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers to forward to the client: those that describe the body, and OpenAI's own.

        All others are about the worker or the connection to it. A client must not learn its
        address, or take its cookies and policies for those of the gateway; and nginx obeys some
        (`X-Accel-Redirect`).
        """
        return [
            (name, value)
            for name, value in self._connection.headers
            if name in _FORWARDED or name.startswith(_FORWARDED_PREFIX)
        ]

    def check(self) -> None:
        """Refuse an answer that says nothing about the request.

        Raises:
            WorkerBusyError: 503 with `Retry-After`.
            UpstreamError: A redirect; its `Location` may name what clients must not see.
        """
        if 300 <= self.status < 400:
            raise UpstreamError("The engine answered with a redirect.")
        if self.status == 503:
            retry_after = dict(self._connection.headers).get(b"retry-after")
            if retry_after is not None:
                raise WorkerBusyError(
                    "The engine is busy.", retry_after_seconds=_seconds(retry_after)
                )

    async def read(self, *, max_bytes: int) -> bytes:
        """The whole body.

        Raises:
            UpstreamError: It is longer than `max_bytes`, or it broke off.
        """
        pieces = bytearray()
        while data := await self.read_some():
            pieces += data
            if len(pieces) > max_bytes:
                raise _too_large()
        return bytes(pieces)


class WorkerClient:
    """An HTTP client for one worker.

    Must be made, used and closed on one event loop.
    """

    def __init__(
        self, address: WorkerAddress, timeouts: ConnectionTimeouts, *, api_key: str | None
    ) -> None:
        self.address = address
        parts = urlsplit(address.url)
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host_line = f"host: {parts.netloc}"
        self._authorization = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        self._pool = ConnectionPool(address, timeouts, tls)
        self._http = _small_calls(address, timeouts, tls, self._authorization)
        self._is_shut = False

    def shut(self) -> None:
        """Refuse every new request, as if the worker did not listen."""
        self._is_shut = True

    def reopen(self) -> None:
        """Accept requests again."""
        self._is_shut = False

    async def close(self) -> None:
        """Close every connection."""
        self._pool.close()
        await self._http.aclose()

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator[WorkerAnswer]:
        """Send a client's request and wait for the head of its answer.

        Leaving the block before the end of the body closes the connection, and vLLM aborts the
        request.

        Raises:
            WorkerLostError: The connection failed, or broke before the head arrived.
            WorkerTimeoutError: The head did not arrive in time.
            WorkerBusyError: The worker answered 503 with `Retry-After`.
            UpstreamError: The answer is not HTTP, or a redirect.
        """
        self._check_open()
        async with self._pool.exchange(self._request(path, headers, body)) as connection:
            answer = WorkerAnswer(connection)
            answer.check()
            yield answer

    async def get(self, path: str, *, timeout_seconds: float) -> tuple[int, bytes]:
        """Send a small GET; returns status and body.

        Args:
            path: The path.
            timeout_seconds: From now to the end of the answer.

        Raises:
            WorkerLostError: The worker cannot be reached, or the connection broke.
            WorkerTimeoutError: The answer was not complete in time.
            UpstreamError: The answer is too large, or not HTTP.
        """
        return await self._ask(self._http.build_request("GET", path), timeout_seconds)

    async def call(self, path: str, body: bytes, *, timeout_seconds: float) -> int:
        """Send a small JSON POST; returns the status and ignores the body.

        Raises:
            UpstreamError: As `get`.
        """
        status, _ = await self._post_small(path, body, timeout_seconds)
        return status

    async def get_json(self, path: str, *, timeout_seconds: float) -> dict[str, Any]:
        """Send a small GET; returns the JSON object in the answer.

        Raises:
            UpstreamError: As `get`, or the status is not 200, or the body is not a JSON object.
        """
        return _json_of(path, *await self.get(path, timeout_seconds=timeout_seconds))

    async def post_json(self, path: str, body: bytes, *, timeout_seconds: float) -> dict[str, Any]:
        """Send a JSON POST; returns the JSON object in the answer.

        Raises:
            UpstreamError: As `get_json`.
        """
        return _json_of(path, *await self._post_small(path, body, timeout_seconds))

    def _request(self, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"POST {quote(path)} HTTP/1.1", self._host_line]
        lines += [f"{name}: {value}" for name, value in {**headers, **self._authorization}.items()]
        lines.append(f"content-length: {len(body)}")
        if any(_LINE_END.search(line) for line in lines):
            raise InvalidRequestError("A header contains a line end.")  # uvicorn refuses it earlier
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    async def _post_small(
        self, path: str, body: bytes, timeout_seconds: float
    ) -> tuple[int, bytes]:
        request = self._http.build_request("POST", path, content=body, headers=_JSON)
        return await self._ask(request, timeout_seconds)

    async def _ask(self, request: httpx.Request, timeout_seconds: float) -> tuple[int, bytes]:
        self._check_open()
        body = bytearray()
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await self._send(request)
                try:
                    async for data in answer.aiter_raw():
                        body += data
                        if len(body) > _MAX_SMALL_BYTES:
                            raise _too_large()
                finally:
                    await answer.aclose()
        except TimeoutError as error:
            raise WorkerTimeoutError("The engine stayed silent for too long.") from error
        except HTTPX_ERRORS as error:
            raise worker_error(error) from error
        return answer.status_code, bytes(body)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._http.send(request, stream=True)
        except AttributeError as error:
            # anyio 4.16 on uvloop, if the worker resets a connection that was just made: it asks a
            # socket that is gone for its peer.
            if error.name != "getpeername":
                raise
            raise httpx.ConnectError("The connection was reset at once.") from error

    def _check_open(self) -> None:
        if self._is_shut:
            raise WorkerLostError("The engine is shutting down.", sent=False)


def worker_error(error: Exception) -> UpstreamError:
    """Our error for one of httpx's; the caller raises it from that."""
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.PoolTimeout():
            return WorkerLostError("The engine could not be reached.", sent=False)
        case httpx.TimeoutException():
            return WorkerTimeoutError("The engine stayed silent for too long.")
        case httpx.NetworkError() | httpx.RemoteProtocolError():
            # httpx tells only in its message whether an answer broke off or was no HTTP.
            return WorkerLostError("The connection to the engine was lost.", sent=True)
        case _:
            return UpstreamError("The engine sent a bad answer.")


def _small_calls(
    address: WorkerAddress,
    timeouts: ConnectionTimeouts,
    tls: ssl.SSLContext | None,
    authorization: Mapping[str, str],
) -> httpx.AsyncClient:
    """A client without proxies, redirects, compression, or a limit on connections.

    A limit would let slow calls delay the probes, and a worker would be taken for dead.
    """
    limits = httpx.Limits(
        max_connections=None, max_keepalive_connections=8, keepalive_expiry=KEEP_ALIVE_SECONDS
    )
    return httpx.AsyncClient(
        base_url=address.url,
        headers={**authorization, "accept-encoding": "identity"},
        timeout=httpx.Timeout(None, connect=timeouts.connect_seconds),  # `_ask` has the total
        transport=httpx.AsyncHTTPTransport(
            uds=address.socket_path, verify=tls or False, limits=limits, trust_env=False
        ),
        trust_env=False,
    )


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


def _too_large() -> UpstreamError:
    return UpstreamError("The engine sent an answer that is too large.")


def _seconds(retry_after: bytes) -> float:
    """The seconds of a `Retry-After`, at most a minute; 1 if it is a date or no number."""
    if not retry_after.isdigit():
        return 1.0
    return float(min(int(retry_after[:9]), _MAX_RETRY_AFTER_SECONDS))


def _media_type(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    found = next((value for name, value in headers if name == b"content-type"), b"")
    return found.partition(b";")[0].strip().lower()
