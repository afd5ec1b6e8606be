"""Opens each stream with the writer of its pacing mode."""

import base64
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from math import ceil

from gateway.pacing import LONGEST_STEP, Packetizer, Wheel
from gateway.protocol import Dialect, InferenceRequest, TextChunks, padded
from gateway.relay.event_stream import EventStream, StreamPolicy
from gateway.relay.private import PrivatePolicy, PrivateSink
from gateway.relay.smooth import SmoothPolicy, SmoothWriter
from gateway.relay.token_clock import Observe
from gateway.relay.writer import DirectWriter, Mark, Writer
from gateway.types import Headers, PacingMode, Sink


@dataclass(frozen=True, slots=True)
class PacingMeters:
    """Callbacks for the metrics of pacing.

    Attributes:
        streams: Called with the mode of each stream that begins.
        added_smooth: Called with an added delay in seconds and the number of tokens delayed.
        added_private: The same for private streams.
        depth: Called with the number of tokens still held when a piece is sent, and 1.
    """

    streams: Callable[[PacingMode], None]
    added_smooth: Observe
    added_private: Observe
    depth: Observe


class Pacers:
    """Opens the writer of each stream.

    Args:
        wheel: The timers of all smooth streams.
        stream: Limits of every stream.
        smooth: Limits of smooth streams.
        private: Timing and sizes of private streams.
        meters: Metrics.
    """

    def __init__(
        self,
        wheel: Wheel,
        *,
        stream: StreamPolicy,
        smooth: SmoothPolicy,
        private: PrivatePolicy,
        meters: PacingMeters,
    ) -> None:
        self._wheel = wheel
        self._stream = stream
        self._smooth = smooth
        self._private = private
        self._meters = meters
        self._modes = {"smooth": self._smooth_mode, "private": self._private_mode, "off": self._off}

    def open(
        self,
        mode: PacingMode,
        request: InferenceRequest,
        sink: Sink,
        headers: Headers,
        *,
        mark: Mark,
    ) -> AbstractAsyncContextManager[Writer]:
        """The writer of a stream, for the length of the block.

        Args:
            mode: Pacing mode. Smooth falls back to off where text cannot be recognised: with
                several choices, or on an endpoint that is only forwarded.
            request: The request that the stream answers.
            sink: The client's side.
            headers: Headers of the answer, besides those of every stream.
            mark: Called with the number of tokens sent, as they are sent.
        """
        knows_text = request.choices == 1 and request.endpoint.dialect is not Dialect.PLAIN
        used: PacingMode = "off" if mode == "smooth" and not knows_text else mode
        self._meters.streams(used)
        return self._modes[used](request, sink, headers, mark)

    @asynccontextmanager
    async def _off(
        self, _: InferenceRequest, sink: Sink, headers: Headers, mark: Mark
    ) -> AsyncIterator[Writer]:
        async with EventStream(sink, self._stream, headers) as out:
            yield DirectWriter(out, mark)

    @asynccontextmanager
    async def _smooth_mode(
        self, request: InferenceRequest, sink: Sink, headers: Headers, mark: Mark
    ) -> AsyncIterator[Writer]:
        async with EventStream(sink, self._stream, headers) as out:
            writer = SmoothWriter(
                out,
                TextChunks(request.endpoint.dialect),
                self._wheel,
                self._smooth,
                mark=mark,
                added=self._meters.added_smooth,
                depth=self._meters.depth,
                clock=time.monotonic,
            )
            try:
                yield writer
            finally:
                writer.close()

    @asynccontextmanager
    async def _private_mode(
        self, _: InferenceRequest, sink: Sink, headers: Headers, mark: Mark
    ) -> AsyncIterator[Writer]:
        policy = self._private
        packetizer = Packetizer(
            packet_bytes=policy.packet_bytes, min_ticks=policy.min_ticks, pad=_pad
        )
        # The client is not stuck while the end waits for its packet.
        stuck_seconds = self._stream.client_stuck_seconds + LONGEST_STEP * policy.min_seconds
        async with (
            PrivateSink(
                sink, packetizer, policy, mark=mark, added=self._meters.added_private
            ) as private,
            EventStream(
                private, replace(self._stream, client_stuck_seconds=stuck_seconds), headers
            ) as out,
        ):
            yield DirectWriter(out, private.mark_queued, hurry=private.hurry)


def _pad(events: bytes, size: int) -> bytes:
    filling = base64.urlsafe_b64encode(os.urandom(ceil(size * 3 / 4)))
    return padded(events, size=size, filling=filling)
