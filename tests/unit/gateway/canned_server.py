"""A server that sends fixed bytes, valid or not, and closes the connection."""

import asyncio
import contextlib
from typing import Self


class CannedServer:
    """Answers each connection's first request with `answer`.

    Attributes:
        requests: What the first read of each connection returned.
        hang: Keep the connection open afterwards without sending anything.
    """

    def __init__(self, answer: bytes = b"", *, hang: bool = False) -> None:
        self.answer = answer
        self.hang = hang
        self.requests: list[bytes] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            self.requests.append(await reader.read(65_536))
            writer.write(self.answer)
            if self.hang:
                await reader.read()  # until the peer leaves


def ok(body: bytes, *headers: bytes) -> bytes:
    """A valid response."""
    lines = [b"HTTP/1.1 200 OK", b"content-length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)
