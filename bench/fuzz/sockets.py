"""A raw client connection: it sends bytes, leaves as it likes, and reads whole answers."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bench.fuzz.http import ReplyReader

_READ_BYTES = 2**18
_RESET = struct.pack("ii", 1, 0)


class RawConnection:
    """One connection to 127.0.0.1.

    Attributes:
        replies: What the gateway answered.
        is_closed: Whether the gateway has closed.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, replies: ReplyReader
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.replies = replies
        self.is_closed = False

    async def send(self, data: bytes) -> None:
        """Send bytes; a connection that the gateway has closed takes them as well."""
        with contextlib.suppress(ConnectionError):  # the answer may still be there to be read
            self._writer.write(data)
            await self._writer.drain()

    async def read_until(self, is_enough: Callable[[ReplyReader], bool], *, seconds: float) -> None:
        """Read until the gateway closes, `is_enough`, or nothing came for `seconds`.

        Raises:
            NotHttpError: What came is no HTTP.
        """
        try:
            while not is_enough(self.replies):
                async with asyncio.timeout(seconds):
                    data = await self._reader.read(_READ_BYTES)
                if not data:
                    self._close()
                    return
                self.replies.feed(data)
        except TimeoutError:
            return
        except ConnectionError:
            self._close()

    def finish_sending(self) -> None:
        """Close the sending direction."""
        if not self._writer.is_closing():
            with contextlib.suppress(OSError):
                self._writer.write_eof()

    def reset(self) -> None:
        """Reset the connection."""
        raw = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._writer.transport.abort()

    def _close(self) -> None:
        self.replies.close()
        self.is_closed = True


@asynccontextmanager
async def connected(port: int, *, is_head: bool = False) -> AsyncIterator[RawConnection]:
    """Connect to the gateway."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield RawConnection(reader, writer, ReplyReader(is_head=is_head))
    finally:
        writer.transport.abort()
