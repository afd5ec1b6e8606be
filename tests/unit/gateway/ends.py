"""Both ends of an exchange without a network: a scripted worker and a recording client."""

import asyncio
from collections.abc import Callable, Sequence

from gateway.types import Headers


class RecordingSink:
    """A client that records what is written to it.

    Args:
        stuck_after: After this many writes it blocks; None: never.

    Attributes:
        writes: Each write.
        ended: Whether the answer was ended.
        aborted: Whether the connection was closed without an end.
    """

    def __init__(self, *, stuck_after: int | None = None) -> None:
        self.status: int | None = None
        self.headers: list[tuple[bytes, bytes]] = []
        self.writes: list[bytes] = []
        self.ended = self.aborted = False
        self._stuck_after = stuck_after

    @property
    def started(self) -> bool:
        return self.status is not None

    @property
    def body(self) -> bytes:
        """All bytes that were written."""
        return b"".join(self.writes)

    async def start(self, status: int, headers: Headers) -> None:
        assert not self.started
        self.status, self.headers = status, list(headers)

    async def write(self, data: bytes) -> None:
        if len(self.writes) == self._stuck_after:
            await asyncio.Event().wait()
        self.writes.append(data)
        assert self.started
        assert not self.ended

    def write_now(self, data: bytes) -> bool:
        if len(self.writes) == self._stuck_after:
            return False
        self.writes.append(data)
        assert self.started
        assert not self.ended
        return True

    async def end(self, data: bytes = b"") -> None:
        assert self.started
        assert not self.ended
        self.ended = True
        if data:
            self.writes.append(data)

    def abort(self) -> None:
        self.aborted = True


class ScriptedSource:
    """A worker that sends bytes, waits (seconds) or raises, step by step.

    Attributes:
        taken: Number of steps done.
        pauses: How often the receiver asked for a pause.
    """

    headers: Sequence[tuple[bytes, bytes]]

    def __init__(
        self,
        steps: Sequence[bytes | float | Exception],
        *,
        status: int = 200,
        is_event_stream: bool = True,
    ) -> None:
        self._steps = steps
        self.status = status
        self.is_event_stream = is_event_stream
        self.headers = [(b"content-type", b"application/json")]
        self.taken = self.pauses = 0

    async def feed(self, receive: Callable[[bytes], bool]) -> bool:
        while data := await self.read_some():
            if not receive(data):
                self.pauses += 1
                return True
        return False

    async def read_some(self) -> bytes:
        while self.taken < len(self._steps):
            step = self._steps[self.taken]
            self.taken += 1
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                if step:
                    return step
            else:
                await asyncio.sleep(step)
        return b""
