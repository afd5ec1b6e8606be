"""Relays a stream frame by frame until its END frame, or raises an error that says why it ended."""

import time
from collections.abc import Callable

from gateway.errors import GatewayError, UpstreamError, WorkerLostError
from gateway.protocol import FrameKind, FrameSplitter, InferenceRequest, Progress, StreamReader
from gateway.relay.source import Source
from gateway.relay.token_clock import TokenClock
from gateway.relay.whole import Keep, WholeRelay, keep_nothing
from gateway.relay.writer import Writer
from gateway.types import Acceptance, Usage


class StreamRelay:
    """The stream that answers one request: read its frames, time its tokens, write them.

    `relay` reads the answer of one worker. If that fails before the client got a frame, it may be
    called again with another's. Later it may be called with the answer of a worker that goes on
    behind `progress`.

    Frames are read, counted and written where they arrive, in `_receive`. The task that runs
    `relay` only wakes when it has to wait for the client, and at the end.

    Args:
        request: The request that is answered.
        writer: Writes frames to the client.
        clock: Times the tokens.
        whole: Relays an answer that turns out not to be a stream.
        max_frame_bytes: Largest event that a worker may send.
        keep: Stores the complete response.

    Attributes:
        reader: The reader of the latest answer; it has the counts.
    """

    def __init__(
        self,
        request: InferenceRequest,
        writer: Writer,
        clock: TokenClock,
        *,
        whole: WholeRelay,
        max_frame_bytes: int,
        keep: Keep = keep_nothing,
    ) -> None:
        self._writer = writer
        self._keep = keep
        self._clock = clock
        self._whole = whole
        self._max_frame_bytes = max_frame_bytes
        self._begin(request, None)

    def _begin(self, request: InferenceRequest, before: Progress | None) -> None:
        self.reader = StreamReader(request, before)
        self._splitter = FrameSplitter(self._max_frame_bytes)
        self._last_frame: bytes | None = None
        self._error: GatewayError | None = None

    @property
    def may_retry(self) -> bool:
        """Whether the client has got no part of an answer; keep-alives do not count."""
        return self._whole.may_retry and not self._writer.out.delivered

    @property
    def counts(self) -> tuple[Usage | None, Acceptance | None]:
        """What the worker counted for the latest answer."""
        if self._whole.answer is not None:
            return self._whole.counts
        return self.reader.usage, self.reader.acceptance

    def tell_first(self, on_first: Callable[[float], None]) -> None:
        """Call `on_first` with the time of the first text that comes from now on."""
        self._clock.worker.on_first = on_first

    @property
    def progress(self) -> Progress | None:
        """What the client has of the answer, if another worker can go on with it."""
        progress = self.reader.progress
        return progress if progress is not None and progress.can_go_on else None

    async def end(self) -> None:
        """End an answer of which only the end was lost: the client has all of its text.

        Raises:
            SlowClientError: The client reads too slowly.
        """
        await self._writer.end(self.reader.end)

    def take_held(self) -> bytes:
        """Take what is held of the answer, which the client must get even if it fails."""
        return self.reader.take_held()

    async def relay(self, request: InferenceRequest, answer: Source) -> None:
        """Relay one worker's answer. Anything after its END frame is ignored.

        Args:
            request: The request as it was sent: its prediction may have been tokenized since.
            answer: The worker's answer.

        Raises:
            WorkerLostError: The stream closed before its END frame.
            GatewayError: The stream contained an error, or is malformed.
            SlowClientError: The client reads too slowly.
        """
        out = self._writer.out
        if not answer.is_event_stream:
            if out.started:
                raise UpstreamError("The engine did not answer with a stream.")
            out.withdraw()
            await self._whole.relay(request, answer)
            return
        self._begin(request, self.reader.progress if out.delivered else None)
        await self._relay_frames(answer)
        usage = self.reader.usage
        self._clock.finish(usage.completion_tokens if usage else None)

    async def _relay_frames(self, answer: Source) -> None:
        while await answer.feed(self._receive):
            if self._last_frame is not None:
                if self.reader.response is not None:
                    await self._keep(self.reader.response)
                await self._writer.end(self._last_frame)
                return
            if self._error is not None:
                raise self._take_error()
            await self._writer.drain()
        if self.reader.needs_end_frame or self._splitter.pending_bytes:
            raise WorkerLostError("The engine's stream was cut short.", sent=True)
        await self._writer.end()

    def _take_error(self) -> GatewayError:
        """The error, which will refer to this relay through its traceback: break the cycle."""
        error, self._error = self._error, None
        assert error is not None
        return error

    def _receive(self, data: bytes) -> bool:
        """Take in bytes of the stream; False if the task has to wake."""
        writer, has_text = self._writer, False
        tokens: int | None = 0
        try:
            for frame in self._splitter.feed(data):
                wanted, kind, new_tokens = self.reader.read(frame)
                if kind is FrameKind.TOKENS:
                    writer.text(wanted or b"", new_tokens)
                    has_text = True
                    tokens = None if tokens is None or new_tokens is None else tokens + new_tokens
                elif kind is FrameKind.END:
                    self._last_frame = wanted or b""
                    break
                elif wanted is not None:
                    writer.other(wanted)
        except GatewayError as error:
            self._error = error  # the frames before it still go to the client
        if has_text:
            self._clock.worker.mark(tokens, time.monotonic())
        return writer.flush() and self._last_frame is None and self._error is None
