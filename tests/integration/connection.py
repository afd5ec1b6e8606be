"""An HTTP/1.1 client on a raw socket: it can disconnect, read slowly or send in pieces."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

_READ_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Connection:
    """One open connection to a gateway."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def post(self, path: str, body: dict[str, Any], *, headers: str = "") -> None:
        """Send a whole request."""
        text = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n"
            f"{headers}content-length: {len(text)}\r\n\r\n"
        )
        await self.send(head.encode() + text)

    async def read_until(self, mark: bytes) -> bytes:
        """Read up to and including `mark`."""
        async with asyncio.timeout(_READ_SECONDS):
            return await self.reader.readuntil(mark)

    async def read_to_end(self) -> bytes:
        """Read until the server closes the connection."""
        async with asyncio.timeout(_READ_SECONDS):
            return await self.reader.read()

    def leave(self, *, reset: bool = False) -> None:
        """Close the connection, or reset it."""
        if reset:
            raw = self.writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        self.writer.close()


@asynccontextmanager
async def connect(port: int, *, receive_bytes: int | None = None) -> AsyncIterator[Connection]:
    """Connect to 127.0.0.1.

    Args:
        port: Where a gateway listens.
        receive_bytes: Size of the socket's receive buffer; small for a client that reads slowly,
            and then nothing is read ahead either.
    """
    raw = socket.socket()
    if receive_bytes is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
    limit = 2**20 if receive_bytes is None else receive_bytes
    reader, writer = await asyncio.open_connection(sock=raw, limit=limit)
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()
