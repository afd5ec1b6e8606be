"""Relays an answer that is not a stream: held until complete, unless it is very large."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from gateway.protocol import Answer, InferenceRequest, read_answer
from gateway.relay.event_stream import SlowClientError
from gateway.relay.source import Source
from gateway.types import Acceptance, Sink, Usage

Keep = Callable[[bytes | None], Awaitable[None]]
"""Stores a complete response before its end is sent; None: it is too large to be held."""


async def keep_nothing(response: bytes | None) -> None:
    """A `Keep` for answers that are not stored."""


class WholeRelay:
    """The answer to one request, in one piece.

    An answer of up to `held_bytes` is held until complete: if the worker dies, the request can be
    replayed and the client never sees half an answer. A longer one is passed through unread, in
    bounded memory.

    Args:
        sink: The client's side.
        headers: Headers of ours for the client.
        held_bytes: As above.
        stuck_seconds: How long a client may read nothing of a long answer.
        keep: Stores the answer.

    Attributes:
        answer: The answer that was relayed, with its counts.
    """

    def __init__(
        self,
        sink: Sink,
        headers: Sequence[tuple[bytes, bytes]],
        *,
        held_bytes: int,
        stuck_seconds: float,
        keep: Keep = keep_nothing,
    ) -> None:
        self._sink = sink
        self._headers = headers
        self._held_bytes = held_bytes
        self._stuck_seconds = stuck_seconds
        self._keep = keep
        self._delivered = False
        self.answer: Answer | None = None

    @property
    def may_retry(self) -> bool:
        """Whether the client has got no part of an answer."""
        return not self._delivered

    @property
    def counts(self) -> tuple[Usage | None, Acceptance | None]:
        """What the worker counted for the answer."""
        return (None, None) if self.answer is None else (self.answer.usage, self.answer.acceptance)

    def tell_first(self, on_first: Callable[[float], None]) -> None:
        """An answer in one piece has no first text; `on_first` is not called."""

    @property
    def progress(self) -> None:
        """Nothing: only a stream can go on."""
        return None

    async def end(self) -> None:
        """Nothing: there is never only an end to send."""

    async def relay(self, request: InferenceRequest, answer: Source) -> None:
        """Relay one worker's 2xx answer to `request`.

        Raises:
            UpstreamError: The answer broke off, or is not JSON. Nothing was sent unless it was
                long.
            SlowClientError: The client reads too slowly.
        """
        headers = [*answer.headers, *self._headers]
        held = bytearray()
        while data := await answer.read_some():
            held += data
            if len(held) > self._held_bytes:
                await self._pass_through(answer, bytes(held), headers)
                return
        found = self.answer = read_answer(request, bytes(held))
        length = (b"content-length", str(len(found.body)).encode())
        await self._keep(found.body)
        self._delivered = True
        await self._sink.start(answer.status, [*headers, length])
        await self._sink.end(found.body)

    async def _pass_through(
        self, answer: Source, held: bytes, headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        self._delivered = True
        await self._sink.start(answer.status, headers)
        await self._write(held)
        while data := await answer.read_some():
            await self._write(data)
        await self._keep(None)
        await self._sink.end()
        self.answer = Answer(b"")

    async def _write(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._stuck_seconds):
                await self._sink.write(data)
        except TimeoutError as error:
            raise SlowClientError from error
