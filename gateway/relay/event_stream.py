"""The client's side of a stream: begins late, keeps itself alive, gives up a stuck client."""

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
    (b"x-accel-buffering", b"no"),  # nginx would collect the stream otherwise
)


class SlowClientError(Exception):
    """The client took nothing for so long that its stream was given up."""


@dataclass(frozen=True, slots=True)
class StreamPolicy:
    """Bounds of a stream.

    Attributes:
        keep_alive_seconds: A comment is sent when nothing flowed for so long.
        client_stuck_seconds: A client that takes nothing for so long is given up.
        max_frame_bytes: Largest single event of a worker.
    """

    keep_alive_seconds: float
    client_stuck_seconds: float
    max_frame_bytes: int


class KeptBack(Protocol):
    """Text that a stream keeps back for a while; it leaves before anything else that is written."""

    def lead(self, frames: bytes) -> bytes:
        """All that is kept back, and `frames` behind it."""

    def left(self) -> None:
        """What `lead` gave has left."""


class EventStream:
    """An SSE answer, as a context manager that owns its keep-alive task.

    Status and headers leave with the first frame or the first keep-alive, so that until then
    a failure can still be answered with a status of its own.

    Attributes:
        started: Status and headers have left.
        delivered: A frame of a worker has left: from here on no other try is possible.
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
        self._kept_back: KeptBack | None = None
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
        # Each of them knows this stream: a cycle would keep all of it for the garbage collector.
        del self._keeper
        self._kept_back = None
        try:
            await self._stuck.__aexit__(kind, error, trace)
        except TimeoutError as timeout:
            raise SlowClientError from timeout

    def keep_back(self, kept_back: KeptBack) -> None:
        """From now on send what is kept back before whatever is written."""
        self._kept_back = kept_back

    async def write(self, frames: bytes) -> None:
        """Send whole frames; returns when the client's socket has room for more."""
        self.delivered = True
        if self._kept_back is not None:
            frames = self._kept_back.lead(frames)
        if not self.started:
            await self._start()
        self._writing = True
        self._active_seconds = self._loop.time()
        await self._sink.write(frames)
        self._active_seconds = self._loop.time()
        self._writing = False
        if self._kept_back is not None:
            self._kept_back.left()

    def write_now(self, frames: bytes) -> bool:
        """Send whole frames without waiting; False if they have to go through `write`.

        What is kept back is its caller's to think of.
        """
        if not self.delivered or self._writing or not self._sink.write_now(frames):
            return False
        self._active_seconds = self._loop.time()
        return True

    def withdraw(self) -> None:
        """The answer turned out to be no stream: send nothing, the sink is the caller's again."""
        self._keeper.cancel()

    async def end(self, frames: bytes = b"") -> None:
        """Send the last whole frames and end the answer, in one packet; nothing may follow."""
        if self._kept_back is not None:
            frames = self._kept_back.lead(frames)
        self.delivered = self.delivered or bool(frames)
        if not self.started:
            await self._start()
        self._writing = True
        self._active_seconds = self._loop.time()
        await self._sink.end(frames)
        self._keeper.cancel()
        if self._kept_back is not None:
            self._kept_back.left()

    async def _start(self) -> None:
        self.started = True
        await self._sink.start(200, self._headers)

    async def _keep_alive(self) -> None:
        """Runs beside the stream; wakes rarely, whatever the number of frames."""
        keep_alive, stuck = self._policy.keep_alive_seconds, self._policy.client_stuck_seconds
        while True:
            bound = stuck if self._writing else keep_alive
            left = self._active_seconds + bound - self._loop.time()
            if left > 0:
                await asyncio.sleep(min(left, keep_alive))
            elif self._writing or not await self._send_comment():
                self._stuck.reschedule(self._loop.time())
                return

    async def _send_comment(self) -> bool:
        """Send a keep-alive; False if the client does not take even that."""
        try:
            async with asyncio.timeout(self._policy.client_stuck_seconds):
                if not self.started:
                    await self._start()
                await self._sink.write(KEEP_ALIVE)
                self._active_seconds = self._loop.time()
        except TimeoutError:
            return False
        return True
