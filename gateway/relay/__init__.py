"""Relays one answer from a worker to its client, whole or streamed, in bounded memory.

Knows neither FastAPI nor how connections are made: it reads a `Source` and writes a `Sink`.
"""

from gateway.relay.event_stream import SlowClientError, StreamPolicy
from gateway.relay.pacers import Pacers, PacingMeters
from gateway.relay.private import PrivatePolicy
from gateway.relay.smooth import SmoothPolicy
from gateway.relay.source import Source
from gateway.relay.streamed import StreamRelay
from gateway.relay.token_clock import TokenClock
from gateway.relay.whole import WholeRelay

__all__ = [
    "Pacers",
    "PacingMeters",
    "PrivatePolicy",
    "SlowClientError",
    "SmoothPolicy",
    "Source",
    "StreamPolicy",
    "StreamRelay",
    "TokenClock",
    "WholeRelay",
]
