"""What a relay reads: the answer of one worker, whose head has arrived."""

from collections.abc import Callable, Sequence
from typing import Protocol


class Source(Protocol):
    """A worker's answer; its body is read once, by `feed` or by `read_some`."""

    @property
    def status(self) -> int:
        """Its HTTP status."""

    @property
    def is_event_stream(self) -> bool:
        """Whether its body is a stream of server-sent events."""

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Headers to forward to the client."""

    async def feed(self, receive: Callable[[bytes], bool], /) -> bool:
        """Give the body to `receive` as it arrives, without waking the waiting task.

        Returns:
            True when `receive` returned False; call it again to go on. False at the end.

        Raises:
            UpstreamError: The body broke off; everything before was received.
        """

    async def read_some(self) -> bytes:
        """The next bytes; empty at the end. Raises `UpstreamError` if the body breaks off."""
