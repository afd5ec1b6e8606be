"""Metric definitions and log set-up; decides nothing."""

from gateway.telemetry.logs import configure_logging
from gateway.telemetry.metrics import GatewayMetrics

__all__ = ["GatewayMetrics", "configure_logging"]
