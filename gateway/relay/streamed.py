"""Relay a stream frame by frame, until the worker's own end or an error that says why not."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from gateway.errors import GatewayError, WorkerLostError
from gateway.protocol import FrameKind, FrameSplitter, StreamReader
from gateway.relay.event_stream import EventStream
from gateway.relay.token_clock import TokenClock

_BURST_FRAMES = 8
"""To read so many takes longer (some 10 us each) than the write that is saved by waiting."""


class Source(Protocol):
    """A worker's answer body."""

    async def read_some(self, tap: Callable[[bytes], bool] | None = None) -> bytes:
        """The next bytes, none at the body's end; raises `UpstreamError` when it breaks off.

        What comes while this waits is offered to `tap` first, which takes all of it (True) or
        leaves it.
        """


async def relay_stream(
    source: Source,
    reader: StreamReader,
    out: EventStream,
    clock: TokenClock,
    *,
    max_frame_bytes: int,
) -> None:
    """Copy frames to the client until the stream's END frame, and end the client's stream.

    What a worker sends after END is not read.

    Raises:
        WorkerLostError: The stream closed before its END frame.
        GatewayError: The worker put an error into it, or something that is no stream.
    """
    try:
        await _relay_until_end(source, reader, out, clock, FrameSplitter(max_frame_bytes))
    except GatewayError:
        # Before anything was delivered the request may be replayed: then the new answer counts.
        if out.delivered and (held := reader.take_held()):
            await out.write(held)
        raise


async def _relay_until_end(
    source: Source,
    reader: StreamReader,
    out: EventStream,
    clock: TokenClock,
    splitter: FrameSplitter,
) -> None:
    tap = _tap(reader, out, clock, splitter)
    while data := await source.read_some(tap):
        frames = splitter.feed(data)
        if len(frames) == 1:
            if await _relay_frame(frames[0], reader, out, clock):
                return
            continue
        if not out.delivered and len(frames) >= _BURST_FRAMES:
            # The first frame of a burst does not wait until the others are read.
            if await _relay_frames(frames[:1], reader, out, clock):
                return
            await asyncio.sleep(0)  # uvloop sends when its round ends
            frames = frames[1:]
        if frames and await _relay_frames(frames, reader, out, clock):
            return
    if reader.needs_end_frame or splitter.pending_bytes:
        raise WorkerLostError("The engine's stream was cut short.", sent=True)
    await out.end()


def _tap(
    reader: StreamReader, out: EventStream, clock: TokenClock, splitter: FrameSplitter
) -> Callable[[bytes], bool]:
    """Build what relays a read on the spot, if it is one frame as most are and need not wait."""

    def tap(data: bytes) -> bool:
        if not splitter.is_frame(data) or (usual := reader.read_usual(data)) is None:
            return False
        wanted, running_tokens = usual
        arrived_seconds = time.monotonic()
        if not out.write_now(wanted):
            return False
        tokens = reader.count(running_tokens)
        clock.worker.mark(tokens, arrived_seconds)
        clock.client.mark(tokens, time.monotonic())
        return True

    return tap


async def _relay_frame(
    frame: bytes, reader: StreamReader, out: EventStream, clock: TokenClock
) -> bool:
    """`_relay_frames` of one, by the shorter way."""
    wanted, kind, tokens = reader.read(frame)
    if kind is FrameKind.TOKENS:
        clock.worker.mark(tokens, time.monotonic())
        if wanted is not None:
            await out.write(wanted)
        clock.client.mark(tokens, time.monotonic())
        return False
    if kind is FrameKind.END:
        await out.end(wanted or b"")
        return True
    if wanted is not None:
        await out.write(wanted)
    return False


async def _relay_frames(
    frames: list[bytes], reader: StreamReader, out: EventStream, clock: TokenClock
) -> bool:
    """Relay the frames of one read as one write, which ends the answer if END is among them.

    Returns:
        Whether it was.
    """
    batch = _read(frames, reader)
    if batch.has_text:
        clock.worker.mark(batch.tokens, time.monotonic())
    if batch.ended:
        await out.end(batch.wanted)
    elif batch.wanted:
        await out.write(batch.wanted)
    if batch.has_text:
        clock.client.mark(batch.tokens, time.monotonic())
    if batch.failure is not None:
        raise batch.failure
    return batch.ended


class _Batch(NamedTuple):
    """What the frames of one read come to.

    Attributes:
        wanted: Bytes for the client.
        has_text: Generated text is among them.
        tokens: How much of it; None if the worker does not say.
        ended: The last of them is END.
        failure: The worker's own error, which came after them.
    """

    wanted: bytes
    has_text: bool
    tokens: int | None
    ended: bool
    failure: GatewayError | None


def _read(frames: list[bytes], reader: StreamReader) -> _Batch:
    wanted: list[bytes] = []
    tokens: int | None = 0
    has_text = ended = False
    failure: GatewayError | None = None
    for frame in frames:
        try:
            relayed = reader.read(frame)
        except GatewayError as error:
            failure = error  # what came before it still belongs to the client
            break
        if relayed.frame is not None:
            wanted.append(relayed.frame)
        if relayed.kind is FrameKind.TOKENS:
            has_text = True
            if tokens is None or relayed.new_tokens is None:
                tokens = None
            else:
                tokens += relayed.new_tokens
        if relayed.kind is FrameKind.END:
            ended = True
            break
    return _Batch(b"".join(wanted), has_text, tokens, ended, failure)
