"""Gives each stream the way out that its mode of pacing asks for."""

import base64
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from math import ceil

from gateway.pacing import LONGEST_STEP, PacketShape, Wheel
from gateway.protocol import Dialect, InferenceRequest, TextChunks, padded
from gateway.relay.event_stream import EventStream
from gateway.relay.private import PrivatePolicy, PrivateSink
from gateway.relay.smooth import SmoothPolicy, SmoothWriter
from gateway.relay.token_clock import Observe
from gateway.relay.writer import DirectWriter, Mark, Writer
from gateway.types import PacingMode, Sink


@dataclass(frozen=True, slots=True)
class PacingMeters:
    """Where pacing tells what it does.

    Attributes:
        streams: Takes the mode of each stream that begins.
        added_smooth: Takes a delay that was added, in seconds, and how many tokens had it.
        added_private: The same of private streams.
        depth: Takes the tokens that are still held as a piece leaves, and 1.
    """

    streams: Callable[[PacingMode], None]
    added_smooth: Observe
    added_private: Observe
    depth: Observe


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Paced:
    """One stream's way out.

    Attributes:
        sink: The client's side.
        writer: Makes the way for text before it, once for each try on a worker.
        end_seconds: So long the end of the answer may take although the client takes all.
        hurry: Makes that end come at once; the gateway is about to end.
    """

    sink: Sink
    writer: Callable[[EventStream], Writer]
    end_seconds: float = 0.0
    hurry: Callable[[], None] = _nothing


class Pacers:
    """Makes the way out of each stream.

    Args:
        wheel: Where the pieces of all smooth streams wait.
        smooth: Bounds of smooth streams.
        private: What private streams look like.
        meters: Told of what happens.
    """

    def __init__(
        self, wheel: Wheel, *, smooth: SmoothPolicy, private: PrivatePolicy, meters: PacingMeters
    ) -> None:
        self._wheel = wheel
        self._smooth = smooth
        self._private = private
        self._meters = meters
        self._ways = {"smooth": self._smoothly, "private": self._privately, "off": self._directly}

    def open(
        self, mode: PacingMode, request: InferenceRequest, sink: Sink, mark: Mark
    ) -> AbstractAsyncContextManager[Paced]:
        """The way out of a stream, for the length of the block.

        Args:
            mode: Smooth is off where text cannot be told apart: several choices, or a stream of
                an endpoint that we only forward.
            request: What it answers.
            sink: The client's side.
            mark: Told of the tokens that leave, as they leave.
        """
        knows_text = request.choices == 1 and request.endpoint.dialect is not Dialect.PLAIN
        used: PacingMode = "off" if mode == "smooth" and not knows_text else mode
        self._meters.streams(used)
        return self._ways[used](request, sink, mark)

    @asynccontextmanager
    async def _directly(
        self, request: InferenceRequest, sink: Sink, mark: Mark
    ) -> AsyncIterator[Paced]:
        yield Paced(sink, lambda out: DirectWriter(out, mark))

    @asynccontextmanager
    async def _smoothly(
        self, request: InferenceRequest, sink: Sink, mark: Mark
    ) -> AsyncIterator[Paced]:
        def writer(out: EventStream) -> Writer:
            return SmoothWriter(
                out,
                TextChunks(request.endpoint.dialect),
                self._wheel,
                self._smooth,
                mark=mark,
                added=self._meters.added_smooth,
                depth=self._meters.depth,
                clock=time.monotonic,
            )

        yield Paced(sink, writer)

    @asynccontextmanager
    async def _privately(
        self, request: InferenceRequest, sink: Sink, mark: Mark
    ) -> AsyncIterator[Paced]:
        policy = self._private
        shape = PacketShape(
            packet_bytes=policy.packet_bytes, least_ticks=policy.least_ticks, pad=_pad
        )
        async with PrivateSink(
            sink, shape, policy, mark=mark, added=self._meters.added_private
        ) as private:
            yield Paced(
                private,
                lambda out: DirectWriter(out, private.passes),
                end_seconds=LONGEST_STEP * policy.least_seconds,
                hurry=private.hurry,
            )


def _pad(events: bytes, size: int) -> bytes:
    filling = base64.urlsafe_b64encode(os.urandom(ceil(size * 3 / 4)))
    return padded(events, size=size, filling=filling)
