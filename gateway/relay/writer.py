"""Writes the frames of a stream to the client; each pacing mode has its own writer."""

from collections.abc import Callable
from typing import Protocol

from gateway.relay.event_stream import EventStream

Mark = Callable[[int | None], None]
"""Called with the number of tokens just sent; None if the worker does not count."""


class Writer(Protocol):
    """Writes the frames of one stream.

    Attributes:
        out: The client's side. Nobody else writes to it.
    """

    @property
    def out(self) -> EventStream:
        """As above."""

    def text(self, frame: bytes, tokens: int | None) -> None:
        """Take a frame with `tokens` tokens of text; empty if the reader holds the frame back."""

    def other(self, frame: bytes) -> None:
        """Take a frame without text; it leaves after all text taken before."""

    def flush(self) -> bool:
        """Send what is due, if that needs no waiting; False if it has to be drained."""

    async def drain(self) -> None:
        """Send what is due; waits while the client's socket is full."""

    async def end(self, frame: bytes = b"") -> None:
        """Send everything, then `frame`, and end the answer."""

    def hurry(self) -> None:
        """The gateway is shutting down: do not delay the end for the sake of pacing."""


class DirectWriter:
    """Sends text as it arrives.

    Args:
        out: The client's side.
        mark: Called with the number of tokens sent, once for each flush.
        hurry: Ends whatever delays the end of the answer.
    """

    def __init__(
        self, out: EventStream, mark: Mark, *, hurry: Callable[[], None] = lambda: None
    ) -> None:
        self.out = out
        self.hurry = hurry
        self._mark = mark
        self._tokens: int | None = 0
        self._has_text = False

    def text(self, frame: bytes, tokens: int | None) -> None:
        """Take it for the next flush."""
        if frame:
            self.out.write(frame)
        self._has_text = True
        self._tokens = None if tokens is None or self._tokens is None else self._tokens + tokens

    def other(self, frame: bytes) -> None:
        """Take it for the next flush."""
        self.out.write(frame)

    def flush(self) -> bool:
        """Send it if the socket has room."""
        if not self.out.flush():
            return False
        self._count()
        return True

    async def drain(self) -> None:
        """Send it."""
        await self.out.drain()
        self._count()

    async def end(self, frame: bytes = b"") -> None:
        """Send it and end."""
        self._count()
        await self.out.end(frame)

    def _count(self) -> None:
        if self._has_text:
            self._mark(self._tokens)
            self._has_text, self._tokens = False, 0
