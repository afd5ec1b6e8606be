"""Relays a stream frame by frame until its END frame, or raises an error that says why it ended."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from gateway.errors import GatewayError, WorkerLostError
from gateway.protocol import FrameKind, FrameSplitter, StreamReader
from gateway.relay.event_stream import EventStream
from gateway.relay.token_clock import Side
from gateway.relay.writer import Writer

_BURST_FRAMES = 8
"""Reading this many (about 10 us each) takes longer than the write that is saved by waiting."""


class Source(Protocol):
    """A worker's answer body."""

    async def read_some(self, tap: Callable[[bytes], bool] | None = None) -> bytes:
        """The next bytes; empty at the end. Raises `UpstreamError` if the body breaks off.

        Bytes that arrive while this waits are first offered to `tap`, which consumes all of them
        (True) or none.
        """


async def relay_stream(
    source: Source,
    reader: StreamReader,
    out: EventStream,
    writer: Writer,
    *,
    arrivals: Side,
    max_frame_bytes: int,
) -> None:
    """Copy frames to the client until the stream's END frame, and end the client's stream.

    Anything after END is ignored.

    Args:
        source: The worker's answer.
        reader: Reads its frames.
        out: The client's side; takes everything but text.
        writer: Takes the text.
        arrivals: Records when text arrives.
        max_frame_bytes: Largest event that the worker may send.

    Raises:
        WorkerLostError: The stream closed before its END frame.
        GatewayError: The stream contained an error, or is malformed.
    """
    relay = _Relay(reader, out, writer, arrivals)
    try:
        await _relay_until_end(source, relay, FrameSplitter(max_frame_bytes))
    except GatewayError:
        # Only if something was delivered: otherwise the request may be replayed.
        if out.delivered and (held := reader.take_held()):
            await out.write(held)
        raise
    finally:
        writer.close()


class _Relay(NamedTuple):
    """The parts of one relay."""

    reader: StreamReader
    out: EventStream
    writer: Writer
    arrivals: Side


async def _relay_until_end(source: Source, relay: _Relay, splitter: FrameSplitter) -> None:
    reader, out = relay.reader, relay.out
    tap = _tap(relay, splitter)
    while data := await source.read_some(tap):
        frames = splitter.feed(data)
        if len(frames) == 1:
            if await _relay_frame(frames[0], relay):
                return
            continue
        if not out.delivered and len(frames) >= _BURST_FRAMES:
            # Send the first frame of a burst before reading the others.
            if await _relay_frames(frames[:1], relay):
                return
            await asyncio.sleep(0)  # uvloop writes at the end of its iteration
            frames = frames[1:]
        if frames and await _relay_frames(frames, relay):
            return
    if reader.needs_end_frame or splitter.pending_bytes:
        raise WorkerLostError("The engine's stream was cut short.", sent=True)
    await out.end()


def _tap(relay: _Relay, splitter: FrameSplitter) -> Callable[[bytes], bool]:
    """Make the tap, which relays one usual frame without waking the task if it need not wait."""
    reader, offer, arrivals = relay.reader, relay.writer.offer, relay.arrivals

    def tap(data: bytes) -> bool:
        if not splitter.is_frame(data) or (usual := reader.read_usual(data)) is None:
            return False
        wanted, running_tokens = usual
        arrived_seconds = time.monotonic()
        if not offer(wanted, reader.new_tokens(running_tokens)):
            return False
        arrivals.mark(reader.count(running_tokens), arrived_seconds)
        return True

    return tap


async def _relay_frame(frame: bytes, relay: _Relay) -> bool:
    """`_relay_frames` for a single frame, but cheaper."""
    wanted, kind, tokens = relay.reader.read(frame)
    if kind is FrameKind.TOKENS:
        relay.arrivals.mark(tokens, time.monotonic())
        await _send_text(wanted or b"", tokens, relay.writer)
        return False
    if kind is FrameKind.END:
        await relay.writer.end(wanted or b"", 0)
        return True
    if wanted is not None:
        await relay.out.write(wanted)
    return False


async def _send_text(frame: bytes, tokens: int | None, writer: Writer) -> None:
    if not (frame and writer.offer(frame, tokens)):
        await writer.write(frame, tokens)


async def _relay_frames(frames: list[bytes], relay: _Relay) -> bool:
    """Relay the frames of one read in one write, which ends the answer if END is among them.

    If they are all text and the writer is paced, they are offered to it one by one instead.

    Returns:
        Whether END was among them.
    """
    writer = relay.writer
    batch = _read(frames, relay.reader)
    if batch.has_text:
        relay.arrivals.mark(batch.tokens, time.monotonic())
    if writer.is_paced and batch.is_only_text:
        for frame, tokens in batch.wanted:
            await _send_text(frame, tokens, writer)
    elif batch.ended:
        await writer.end(batch.joined, batch.tokens if batch.has_text else 0)
    elif batch.has_text:
        await writer.write(batch.joined, batch.tokens)
    elif batch.wanted:
        await relay.out.write(batch.joined)
    if batch.failure is not None:
        raise batch.failure
    return batch.ended


class _Batch(NamedTuple):
    """The frames of one read.

    Attributes:
        wanted: Frames for the client, each with its new tokens.
        has_text: Whether they contain generated text.
        is_only_text: Whether they contain nothing else.
        tokens: Number of tokens in them; None if the worker does not count.
        ended: Whether END is the last of them.
        failure: A worker's error that followed them.
    """

    wanted: list[tuple[bytes, int | None]]
    has_text: bool
    is_only_text: bool
    tokens: int | None
    ended: bool
    failure: GatewayError | None

    @property
    def joined(self) -> bytes:
        """All frames for the client."""
        return b"".join([frame for frame, _ in self.wanted])


def _read(frames: list[bytes], reader: StreamReader) -> _Batch:
    wanted: list[tuple[bytes, int | None]] = []
    tokens: int | None = 0
    has_text = ended = False
    is_only_text = True
    failure: GatewayError | None = None
    for frame in frames:
        try:
            relayed = reader.read(frame)
        except GatewayError as error:
            failure = error  # the frames before it still go to the client
            break
        if relayed.frame is not None:
            wanted.append((relayed.frame, relayed.new_tokens))
        if relayed.kind is FrameKind.TOKENS:
            has_text = True
            if tokens is None or relayed.new_tokens is None:
                tokens = None
            else:
                tokens += relayed.new_tokens
        is_only_text &= relayed.kind is FrameKind.TOKENS and relayed.frame is not None
        ended = relayed.kind is FrameKind.END
        if ended:
            break
    return _Batch(wanted, has_text, is_only_text, tokens, ended, failure)
