"""Metrics, log set-up and spans."""

from gateway.telemetry.distribution import Distribution
from gateway.telemetry.logs import configure_logging
from gateway.telemetry.metrics import GatewayMetrics
from gateway.telemetry.totals import Totals, WorkerTotals, read_totals
from gateway.telemetry.tracing import Tracing, open_tracing

__all__ = [
    "Distribution",
    "GatewayMetrics",
    "Totals",
    "Tracing",
    "WorkerTotals",
    "configure_logging",
    "open_tracing",
    "read_totals",
]
