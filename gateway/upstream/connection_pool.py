"""The open connections to one worker: kept for a while after an answer, and used again."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway.errors import WorkerLostError
from gateway.upstream.connection import Connection

KEEP_ALIVE_SECONDS = 4.0
"""vLLM's server closes idle connections after 5 s; the gateway closes them first."""


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


class ConnectionPool:
    """Connections to one worker; opens as many as there are requests at a time."""

    def __init__(
        self, address: WorkerAddress, timeouts: ConnectionTimeouts, tls: ssl.SSLContext | None
    ) -> None:
        self._address = address
        self._timeouts = timeouts
        self._tls = tls
        self._idle: dict[Connection, asyncio.TimerHandle] = {}  # most recently used last
        self._open: set[Connection] = set()

    @asynccontextmanager
    async def exchange(self, request: bytes) -> AsyncIterator[Connection]:
        """Send a whole request; yields the connection once the head of the answer has arrived.

        Leaving the block in the middle of the body closes the connection, unless only a short rest
        is missing.

        Raises:
            UpstreamError: As `Connection.exchange`.
            WorkerLostError: The worker cannot be reached.
        """
        connection = self._take_idle() or await self._connect()
        try:
            await connection.exchange(request)
            yield connection
            await connection.drain()
        finally:
            connection.release()
            self._keep(connection)

    def close(self) -> None:
        """Close every connection."""
        for timer in self._idle.values():
            timer.cancel()
        for connection in self._open:
            connection.close()
        self._idle.clear()
        self._open.clear()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            if connection.is_idle:
                return connection
            self._open.discard(connection)
        return None

    async def _connect(self) -> Connection:
        loop, path = asyncio.get_running_loop(), self._address.socket_path
        host = urlsplit(self._address.url)
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
        if connection.is_idle and connection in self._open:
            loop = asyncio.get_running_loop()
            self._idle[connection] = loop.call_later(KEEP_ALIVE_SECONDS, self._drop, connection)
        else:
            self._open.discard(connection)

    def _drop(self, connection: Connection) -> None:
        del self._idle[connection]
        self._open.discard(connection)
        connection.close()
