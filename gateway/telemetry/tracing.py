"""Traces: off unless a collector is named, and then nothing of OpenTelemetry is even imported."""

from typing import Protocol

from gateway.errors import ConfigError
from gateway.types import Headers, Trace


class Tracing(Protocol):
    """Begins the trace of each request."""

    def begin(self, method: str, path: str, headers: Headers) -> Trace:
        """A request came in.

        Args:
            method: Its method.
            path: Its endpoint, one of a closed set.
            headers: Its headers; `traceparent` joins it to its caller's trace.
        """

    def close(self) -> None:
        """Send what is left; blocks for some seconds if nobody takes it."""


def open_tracing(endpoint: str, *, sample_ratio: float) -> Tracing:
    """Send spans to a collector, in the background.

    Args:
        endpoint: URL that takes OTLP over HTTP.
        sample_ratio: Part of the requests that is traced where the caller did not decide, 0-1.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    try:
        # An optional dependency, 40 modules large.
        from gateway.telemetry.spans import Spans, exporting_provider
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"gateway.tracing.endpoint: {error.name} is missing: install specgate[tracing]"
        ) from error
    return Spans(exporting_provider(endpoint, sample_ratio=sample_ratio))
