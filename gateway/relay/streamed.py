"""Relay a stream frame by frame, until the worker's own end or an error that says why not."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Protocol

from gateway.errors import GatewayError, WorkerLostError
from gateway.protocol import FrameKind, FrameSplitter, StreamReader
from gateway.relay.event_stream import EventStream
from gateway.relay.token_clock import TokenClock


class Source(Protocol):
    """A worker's answer body."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; raises `UpstreamError` when it breaks off."""


async def relay_stream(
    source: Source,
    reader: StreamReader,
    out: EventStream,
    clock: TokenClock,
    *,
    max_frame_bytes: int,
) -> None:
    """Copy frames to the client until the stream's END frame; what follows it is not read.

    Raises:
        WorkerLostError: The stream closed before its END frame.
        GatewayError: The worker put an error into it, or something that is no stream.
    """
    splitter = FrameSplitter(max_frame_bytes)
    async for data in source.chunks():
        frames = splitter.feed(data)
        if not out.delivered and len(frames) > 1:
            # The first frame of a burst does not wait until the others are read.
            if await _relay_frames(frames[:1], reader, out, clock):
                return
            await asyncio.sleep(0)  # uvloop sends when its round ends
            frames = frames[1:]
        if frames and await _relay_frames(frames, reader, out, clock):
            return
    if reader.needs_end_frame or splitter.pending_bytes:
        raise WorkerLostError("The engine's stream was cut short.", sent=True)


async def _relay_frames(
    frames: list[bytes], reader: StreamReader, out: EventStream, clock: TokenClock
) -> bool:
    """Relay the frames of one read as one write; True when END was among them."""
    wanted: list[bytes] = []
    new_tokens, counted = 0, True
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
            counted = counted and relayed.new_tokens is not None
            new_tokens += relayed.new_tokens or 0
        if relayed.kind is FrameKind.END:
            ended = True
            break
    tokens = new_tokens if counted else None
    if has_text:
        clock.arrived(tokens, time.monotonic())
    if wanted:
        await out.write(b"".join(wanted))
    if has_text:
        clock.left(tokens, time.monotonic())
    if failure is not None:
        raise failure
    return ended
