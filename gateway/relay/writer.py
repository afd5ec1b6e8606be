"""Writes the text of a stream to the client, at once or paced."""

from collections.abc import Callable
from typing import Protocol

from gateway.relay.event_stream import EventStream

Mark = Callable[[int | None], None]
"""Called with the number of tokens just sent; None if the worker does not count."""


class Writer(Protocol):
    """Writes text to the client.

    Attributes:
        is_paced: Whether the frames of one read are offered one by one or written together.
    """

    @property
    def is_paced(self) -> bool:
        """As above."""

    def offer(self, frame: bytes, tokens: int | None) -> bool:
        """Take a frame with text if that needs no waiting; False if nothing was done."""

    async def write(self, frames: bytes, tokens: int | None) -> None:
        """Send frames with text, after everything taken before."""

    async def end(self, frames: bytes, tokens: int | None) -> None:
        """Send the last frames, which contain `tokens` tokens, and end the answer."""

    def close(self) -> None:
        """Release timers when the stream has ended; may be called again."""


class DirectWriter:
    """Sends text as it arrives."""

    is_paced = False

    def __init__(self, out: EventStream, mark: Mark) -> None:
        self._out = out
        self._mark = mark

    def offer(self, frame: bytes, tokens: int | None) -> bool:
        """Send it if the socket has room."""
        if not self._out.write_now(frame):
            return False
        self._mark(tokens)
        return True

    async def write(self, frames: bytes, tokens: int | None) -> None:
        """Send them."""
        if frames:
            await self._out.write(frames)
        self._mark(tokens)

    async def end(self, frames: bytes, tokens: int | None) -> None:
        """Send them and end."""
        await self._out.end(frames)
        if tokens != 0:
            self._mark(tokens)

    def close(self) -> None:
        """Do nothing: it holds nothing."""
