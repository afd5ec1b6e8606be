"""Relays one answer from a worker to its client, whole or streamed, in bounded memory.

Knows neither FastAPI nor how connections are made: it reads a `Source` and writes a `Sink`.
"""

from gateway.relay.event_stream import EventStream, SlowClientError, StreamPolicy
from gateway.relay.pacers import Paced, Pacers, PacingMeters
from gateway.relay.private import PrivatePolicy
from gateway.relay.smooth import SmoothPolicy
from gateway.relay.streamed import Source, relay_stream
from gateway.relay.token_clock import TokenClock
from gateway.relay.whole import relay_whole
from gateway.relay.writer import Writer

__all__ = [
    "EventStream",
    "Paced",
    "Pacers",
    "PacingMeters",
    "PrivatePolicy",
    "SlowClientError",
    "SmoothPolicy",
    "Source",
    "StreamPolicy",
    "TokenClock",
    "Writer",
    "relay_stream",
    "relay_whole",
]
