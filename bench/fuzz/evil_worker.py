"""A worker that answers each request with the bytes of its case, pauses and endings included."""

import asyncio
import contextlib
import re
import socket
import struct
from typing import Self

from bench.fuzz.answers import AnswerCase

TAG = re.compile(rb"a(?:cut|two|big)-\d{2}-\d{5}|a\d{7}")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_MODELS = b'{"object":"list","data":[{"id":"fake-model","object":"model"}]}'
_MOST_HEAD_BYTES = 2**17
_RESET = struct.pack("ii", 1, 0)


class EvilWorker:
    """Serves on 127.0.0.1, as a context manager.

    Health checks, models and metrics are answered well, so that only the answers to cases are
    hostile.

    Attributes:
        cases: The cases by tag; a request without one is answered with 500.
        asked: Requests that came for a case, or none.
    """

    def __init__(self) -> None:
        self.cases: dict[bytes, AnswerCase] = {}
        self.asked = 0
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, backlog=1024, limit=_MOST_HEAD_BYTES
        )
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._answer(reader, writer):
                pass
        writer.transport.abort() if writer.is_closing() else writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False if the connection ends with it."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
        if not head.startswith(b"POST "):
            writer.write(_page(200, _MODELS))
            return True
        self.asked += 1
        found = TAG.search(body)
        case = self.cases.get(found[0]) if found else None
        if case is None:
            writer.write(_page(500, b'{"error":{"message":"no such case"}}'))
            return True
        for step in case.steps:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            else:
                await asyncio.sleep(step)
        if case.ending == "reset":
            raw: socket.socket = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        if case.ending == "hang":
            await reader.read()  # until the gateway gives up
        return case.ending == "keep"


def _page(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        status,
        len(body),
        body,
    )
