"""The client's side of a stream: late start, keep-alives, and a time limit for stuck clients."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

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
    """

    keep_alive_seconds: float
    client_stuck_seconds: float


class EventStream:
    """An SSE answer, as a context manager that owns its keep-alive task.

    Like `asyncio.StreamWriter`: `write` never waits, and who writes must `drain` when `flush` could
    not send everything. Status and headers are sent with the first frame or keep-alive. Until then
    a failure can still be answered with its own status.

    Attributes:
        started: Status and headers have been sent.
        delivered: A worker's frame has been written, so the request can no longer be replayed.
    """

    def __init__(
        self, sink: Sink, policy: StreamPolicy, headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        self._sink = sink
        self._policy = policy
        self._headers = (*_HEADERS, *headers)
        self._loop = asyncio.get_running_loop()
        self._active_seconds = self._loop.time()
        self._unsent: list[bytes] = []
        self._sending = asyncio.Lock()
        self._stuck = asyncio.timeout(None)
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
        del self._keeper  # it refers to this stream: break the reference cycle
        try:
            await self._stuck.__aexit__(kind, error, trace)
        except TimeoutError as timeout:
            raise SlowClientError from timeout

    def write(self, frames: bytes) -> None:
        """Add complete frames; `flush` or `drain` sends them."""
        self._unsent.append(frames)
        self.delivered = True

    def flush(self) -> bool:
        """Send what was written, if that needs no waiting; False if it has to be drained."""
        unsent = self._unsent
        if not unsent:
            return True
        if not self.started or self._sending.locked():
            return False
        if not self._sink.write_now(unsent[0] if len(unsent) == 1 else b"".join(unsent)):
            return False
        unsent.clear()
        self._active_seconds = self._loop.time()
        return True

    async def drain(self) -> None:
        """Send what was written; returns when the client's socket has room for more.

        Raises:
            SlowClientError: The client read nothing for too long.
        """
        await self._send(is_last=False)

    async def end(self, frames: bytes = b"") -> None:
        """Send the last frames and end the answer, in one packet; nothing may follow.

        Raises:
            SlowClientError: As `drain`.
        """
        if frames:
            self.write(frames)
        await self._send(is_last=True)
        self._keeper.cancel()

    def withdraw(self) -> None:
        """The answer is not a stream: send nothing and leave the sink to the caller."""
        self._keeper.cancel()

    async def _send(self, *, is_last: bool) -> None:
        try:
            async with asyncio.timeout(self._policy.client_stuck_seconds), self._sending:
                if not self.started:
                    self.started = True
                    await self._sink.start(200, self._headers)
                while self._unsent and not is_last:
                    await self._sink.write(self._take())
                if is_last:
                    await self._sink.end(self._take())
        except TimeoutError as error:
            raise SlowClientError from error
        self._active_seconds = self._loop.time()

    def _take(self) -> bytes:
        unsent, self._unsent = self._unsent, []
        return b"".join(unsent)

    async def _keep_alive(self) -> None:
        """Run beside the stream; how often it wakes does not depend on the number of frames."""
        keep_alive = self._policy.keep_alive_seconds
        while True:
            left = self._active_seconds + keep_alive - self._loop.time()
            if left > 0 or self._sending.locked():
                await asyncio.sleep(left if left > 0 else keep_alive)
                continue
            self._unsent.append(KEEP_ALIVE)
            try:
                await self.drain()
            except SlowClientError:
                self._stuck.reschedule(self._loop.time())
                return
