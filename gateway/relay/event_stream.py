"""The client's side of a stream: late start, keep-alives, and a time limit for stuck clients."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from gateway.protocol import KEEP_ALIVE
from gateway.types import Sink

_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx would buffer the stream otherwise
)


class SlowClientError(Exception):
    """The client read nothing for too long, so its stream was closed."""


@dataclass(frozen=True, slots=True)
class StreamPolicy:
    """Limits of a stream.

    Attributes:
        keep_alive_seconds: After this much silence a comment is sent.
        client_stuck_seconds: A client that reads nothing for this long is dropped.
        max_frame_bytes: Largest event that a worker may send.
    """

    keep_alive_seconds: float
    client_stuck_seconds: float
    max_frame_bytes: int


class HeldText(Protocol):
    """Text that is held for a while; it is sent before anything else that is written."""

    def prepend_to(self, frames: bytes) -> bytes:
        """Take all held text and return it followed by `frames`."""

    def on_sent(self) -> None:
        """What `prepend_to` returned has been sent."""


class EventStream:
    """An SSE answer, as a context manager that owns its keep-alive task.

    Status and headers are sent with the first frame or keep-alive. Until then a failure can still
    be answered with its own status.

    Attributes:
        started: Status and headers have been sent.
        delivered: A worker's frame has been sent, so the request can no longer be replayed.
    """

    def __init__(
        self, sink: Sink, policy: StreamPolicy, headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        self._sink = sink
        self._policy = policy
        self._headers = (*_HEADERS, *headers)
        self._loop = asyncio.get_running_loop()
        self._active_seconds = self._loop.time()
        self._writing = False
        self._stuck = asyncio.timeout(None)
        self._held_text: HeldText | None = None
        self.started = False
        self.delivered = False

    async def __aenter__(self) -> Self:
        await self._stuck.__aenter__()
        self._keeper = asyncio.create_task(self._keep_alive(), name="keep-alive")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._keeper.cancel()
        # Both refer to this stream: break the reference cycles.
        del self._keeper
        self._held_text = None
        try:
            await self._stuck.__aexit__(kind, error, trace)
        except TimeoutError as timeout:
            raise SlowClientError from timeout

    def flush_first(self, held_text: HeldText) -> None:
        """Send the held text before every later write."""
        self._held_text = held_text

    async def write(self, frames: bytes) -> None:
        """Send complete frames; returns when the client's socket has room for more."""
        self.delivered = True
        if self._held_text is not None:
            frames = self._held_text.prepend_to(frames)
        if not self.started:
            await self._start()
        self._writing = True
        self._active_seconds = self._loop.time()
        await self._sink.write(frames)
        self._active_seconds = self._loop.time()
        self._writing = False
        if self._held_text is not None:
            self._held_text.on_sent()

    def write_now(self, frames: bytes) -> bool:
        """Send complete frames without waiting; False if they have to go through `write`.

        Does not send held text first: the caller has to.
        """
        if not self.delivered or self._writing or not self._sink.write_now(frames):
            return False
        self._active_seconds = self._loop.time()
        return True

    def withdraw(self) -> None:
        """The answer is not a stream: send nothing and leave the sink to the caller."""
        self._keeper.cancel()

    async def end(self, frames: bytes = b"") -> None:
        """Send the last frames and end the answer, in one packet; nothing may follow."""
        if self._held_text is not None:
            frames = self._held_text.prepend_to(frames)
        self.delivered = self.delivered or bool(frames)
        if not self.started:
            await self._start()
        self._writing = True
        self._active_seconds = self._loop.time()
        await self._sink.end(frames)
        self._keeper.cancel()
        if self._held_text is not None:
            self._held_text.on_sent()

    async def _start(self) -> None:
        self.started = True
        await self._sink.start(200, self._headers)

    async def _keep_alive(self) -> None:
        """Run beside the stream; how often it wakes does not depend on the number of frames."""
        keep_alive, stuck = self._policy.keep_alive_seconds, self._policy.client_stuck_seconds
        while True:
            limit = stuck if self._writing else keep_alive
            left = self._active_seconds + limit - self._loop.time()
            if left > 0:
                await asyncio.sleep(min(left, keep_alive))
            elif self._writing or not await self._send_comment():
                self._stuck.reschedule(self._loop.time())
                return

    async def _send_comment(self) -> bool:
        """Send a keep-alive; False if the client does not read even that."""
        try:
            async with asyncio.timeout(self._policy.client_stuck_seconds):
                if not self.started:
                    await self._start()
                await self._sink.write(KEEP_ALIVE)
                self._active_seconds = self._loop.time()
        except TimeoutError:
            return False
        return True
