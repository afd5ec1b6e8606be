"""Metrics, log set-up and spans."""

from gateway.telemetry.logs import configure_logging
from gateway.telemetry.metrics import GatewayMetrics
from gateway.telemetry.tracing import Tracing, open_tracing

__all__ = ["GatewayMetrics", "Tracing", "configure_logging", "open_tracing"]
