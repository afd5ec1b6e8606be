"""Where the text of a stream leaves: at once, or when its pacing says so."""

from collections.abc import Callable
from typing import Protocol

from gateway.relay.event_stream import EventStream

Mark = Callable[[int | None], None]
"""Takes how many tokens have left just now; None if the worker does not say."""


class Writer(Protocol):
    """The way out for text.

    Attributes:
        is_paced: Frames of one read are offered one by one; else they leave as one write.
    """

    @property
    def is_paced(self) -> bool:
        """As above."""

    def offer(self, frame: bytes, tokens: int | None) -> bool:
        """Take a frame with text that need not wait for the client; False: nothing was done."""

    async def write(self, frames: bytes, tokens: int | None) -> None:
        """Send frames with text, and all that came before them."""

    async def end(self, frames: bytes, tokens: int | None) -> None:
        """Send the last frames, with so many tokens in them, and end the answer."""

    def close(self) -> None:
        """The stream has ended, one way or other; may be called again."""


class DirectWriter:
    """Text leaves as it comes."""

    is_paced = False

    def __init__(self, out: EventStream, mark: Mark) -> None:
        self._out = out
        self._mark = mark

    def offer(self, frame: bytes, tokens: int | None) -> bool:
        """Send it if there is room."""
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
        """Nothing is left behind."""
