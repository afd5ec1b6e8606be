"""Sends requests and records clocks and raw bytes; `answer` interprets them."""

import asyncio
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

import aiohttp

from loadtest.load.answer import Recording

_IDLE_SECONDS = 4.0  # below the 5 s after which many servers close an idle connection
_MOST_WORDS = 200
_SLOW_READ_BYTES = 1_024
_SLOW_BUFFER_BYTES = 4_096  # else the kernel would read on for a slow reader
_OPEN_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=None)


@dataclass(frozen=True, slots=True)
class Sending:
    """One request, and how its client behaves.

    Attributes:
        path: Below the server's URL.
        body: JSON.
        due_ns: CLOCK_MONOTONIC when it should be sent; latency counts from here.
        abort_seconds: The client leaves so long after `due_ns`; None: it stays.
        read_bytes_per_second: It reads no faster; None: as fast as it can.
    """

    path: str
    body: bytes
    due_ns: int
    headers: Mapping[str, str] = field(default_factory=dict)
    abort_seconds: float | None = None
    read_bytes_per_second: int | None = None


class Client:
    """Many clients of one server, as a context manager.

    Args:
        url: The server; `path` of what is sent comes behind it.
        key: Sent as a bearer token; None: no key.
        limit_seconds: A request that has not ended so long after it was due counts as hung.
        connections: `kept` alive as SDKs do, or a `fresh` one for each request; then a server
            that closes an idle connection cannot be mistaken for one that fails a request.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        limit_seconds: float,
        connections: Literal["kept", "fresh"] = "kept",
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"
        self._limit_seconds = limit_seconds
        self._is_fresh = connections == "fresh"

    async def __aenter__(self) -> Self:
        connector = (
            aiohttp.TCPConnector(limit=0, force_close=True)
            if self._is_fresh
            else aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS)
        )
        self._fast = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        slow = aiohttp.TCPConnector(limit=0, force_close=True, socket_factory=_slow_socket)
        self._slow = aiohttp.ClientSession(connector=slow, auto_decompress=False)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._fast.close()
        await self._slow.close()

    async def send(self, sending: Sending) -> Recording:
        """Send now and take the answer to its end, the client's leaving, or the limit.

        No failure of the server is raised: it is part of the recording.
        """
        recording = Recording(due_ns=sending.due_ns, sent_ns=time.monotonic_ns())
        seconds = self._limit_seconds
        leaves = sending.abort_seconds is not None and sending.abort_seconds < seconds
        if leaves and sending.abort_seconds is not None:
            seconds = sending.abort_seconds
        try:
            async with asyncio.timeout_at(sending.due_ns / 1e9 + seconds):
                await self._exchange(sending, recording)
            recording.end = "whole"
        except TimeoutError:
            recording.end = "left" if leaves else "late"
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            recording.end = "broken"
            recording.why = f"{type(error).__name__}: {error}"[:_MOST_WORDS]
        recording.ended_ns = time.monotonic_ns()
        return recording

    async def get(self, path: str) -> tuple[int, bytes]:
        """A small page.

        Raises:
            aiohttp.ClientError: There is no answer.
            TimeoutError: There is none in ten seconds.
        """
        timeout = aiohttp.ClientTimeout(total=10.0)
        async with self._fast.get(
            self._url + path, headers=self._headers, timeout=timeout
        ) as response:
            return response.status, await response.read()

    async def _exchange(self, sending: Sending, recording: Recording) -> None:
        rate = sending.read_bytes_per_second
        session = self._fast if rate is None else self._slow
        async with session.post(
            self._url + sending.path,
            data=sending.body,
            headers={**self._headers, **sending.headers},
            timeout=_OPEN_TIMEOUT,
            read_bufsize=2**16 if rate is None else _SLOW_READ_BYTES,
        ) as response:
            recording.status = response.status
            recording.request_id = response.headers.get("x-request-id", "")
            recording.is_stream = response.content_type == "text/event-stream"
            if rate is None:
                async for data in response.content.iter_any():
                    recording.packets.append((time.monotonic_ns(), data))
                return
            while data := await response.content.read(_SLOW_READ_BYTES):
                recording.packets.append((time.monotonic_ns(), data))
                await asyncio.sleep(len(data) / rate)


def _slow_socket(
    address: tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, object],
) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_BUFFER_BYTES)
    return made
