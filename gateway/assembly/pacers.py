"""Build the pacers of each mode on one timer wheel, and connect them to the metrics."""

import asyncio
from contextlib import AsyncExitStack

from gateway.pacing import Wheel
from gateway.relay import Pacers, PacingMeters, PrivatePolicy, SmoothPolicy, StreamPolicy
from gateway.settings import GatewaySettings
from gateway.telemetry import GatewayMetrics


def build_pacers(
    settings: GatewaySettings, metrics: GatewayMetrics, stack: AsyncExitStack
) -> Pacers:
    """Build them on the running loop; `stack` stops the wheel."""
    chosen = settings.pacing
    wheel = Wheel(asyncio.get_running_loop())
    stack.callback(wheel.close)
    return Pacers(
        wheel,
        stream=StreamPolicy(
            keep_alive_seconds=settings.stream.keep_alive_seconds,
            client_stuck_seconds=settings.stream.client_stuck_seconds,
        ),
        smooth=SmoothPolicy(chosen.max_delay_ms / 1000, chosen.piece_ms / 1000),
        private=PrivatePolicy(
            tick_seconds=chosen.private_tick_ms / 1000,
            packet_bytes=chosen.private_packet_bytes,
            start_seconds=chosen.private_start_ms / 1000,
            min_seconds=chosen.private_least_seconds,
        ),
        meters=PacingMeters(
            streams=metrics.pacing_began,
            added_smooth=metrics.added_smooth.observe,
            added_private=metrics.added_private.observe,
            depth=metrics.pacing_depth.observe,
        ),
    )
