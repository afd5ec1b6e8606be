"""Tracing; without a collector it is off and OpenTelemetry is not imported."""

from typing import Protocol

from gateway.errors import ConfigError
from gateway.types import Headers, Trace


class Tracing(Protocol):
    """Begins the trace of each request."""

    def begin(self, method: str, path: str, headers: Headers) -> Trace:
        """Begin the trace of a request.

        Args:
            method: HTTP method.
            path: The endpoint, one of a closed set.
            headers: Request headers; `traceparent` joins it to the caller's trace.
        """

    def close(self) -> None:
        """Send the remaining spans; blocks for some seconds if the collector does not answer."""


def open_tracing(endpoint: str, *, sample_ratio: float) -> Tracing:
    """Send spans to a collector, in the background.

    Args:
        endpoint: URL of a collector, for OTLP over HTTP.
        sample_ratio: Share of requests to trace if the caller did not decide, 0-1.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    try:
        # An optional dependency.
        from gateway.telemetry.spans import Spans, exporting_provider
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"gateway.tracing.endpoint: {error.name} is missing: install specgate[tracing]"
        ) from error
    return Spans(exporting_provider(endpoint, sample_ratio=sample_ratio))
