"""OpenTelemetry spans: one per request, with one for the queue and one for each attempt below it.

Source of names: OpenTelemetry's semantic conventions for HTTP and generative AI, 1.37; our
own begin with `specgate.`. Spans contain no text, key or tenant.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    format_trace_id,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from gateway.errors import GatewayError
from gateway.types import Headers, RequestRecord, WorkerId

_PROPAGATOR = TraceContextTextMapPropagator()
_CARRIED = (b"traceparent", b"tracestate")
_EXPORT_SECONDS = 3.0
_UNNAMED = "unknown_service"
_FAILED = ("upstream_error", "internal_error")


def exporting_provider(endpoint: str, *, sample_ratio: float) -> TracerProvider:
    """A provider that exports spans in batches, from a background thread.

    Spans that the collector does not accept in time are dropped, with a warning in the log. Service
    name and headers come from `OTEL_SERVICE_NAME` and `OTEL_EXPORTER_OTLP_HEADERS`.
    """
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, _UNNAMED)).startswith(_UNNAMED):
        resource = resource.merge(Resource({SERVICE_NAME: "specgate-gateway"}))
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(sample_ratio)),
        resource=resource,
        shutdown_on_exit=False,  # the app's lifespan shuts it down
    )
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class Spans:
    """A `Tracing` over a provider, which it owns."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("specgate.gateway")

    def begin(self, method: str, path: str, headers: Headers) -> "RequestSpans":
        """Begin the trace of a request."""
        carrier = {
            name.decode(): value.decode("latin-1") for name, value in headers if name in _CARRIED
        }
        span = self._tracer.start_span(
            f"{method} {path}",
            context=_PROPAGATOR.extract(carrier, context=Context()),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "http.route": path},
        )
        return RequestSpans(self._tracer, span)

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()


class RequestSpans:
    """The spans of one request: a `Trace`."""

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._context = set_span_in_context(span, Context())
        self._begun_ns = time.time_ns()

    @property
    def trace_id(self) -> str | None:
        """The id that all spans of this request share, the worker's included."""
        return format_trace_id(self._span.get_span_context().trace_id)

    def queued(self, seconds: float) -> None:
        """The request has just left the queue."""
        now = time.time_ns()
        waited = self._tracer.start_span(
            "queue", context=self._context, start_time=now - _nanoseconds(seconds)
        )
        waited.end(now)

    @contextmanager
    def attempt(self, worker: WorkerId) -> Iterator[Mapping[str, str]]:
        """The span of an attempt, for the block; yields headers that join the worker's spans."""
        span = self._tracer.start_span(
            "worker",
            context=self._context,
            kind=SpanKind.CLIENT,
            attributes={"specgate.worker": worker},
        )
        carried: dict[str, str] = {}
        _PROPAGATOR.inject(carried, context=set_span_in_context(span, Context()))
        try:
            yield carried
        except GatewayError as error:
            span.set_attribute("error.type", error.reason)
            if error.outcome in _FAILED:
                span.set_status(StatusCode.ERROR)
            raise
        finally:
            span.end()

    def end(self, record: RequestRecord) -> None:
        """The request has ended."""
        span = self._span
        if record.first_token_seconds is not None:
            after = record.first_token_seconds - record.started_seconds
            span.add_event("first_token", timestamp=self._begun_ns + _nanoseconds(after))
        span.set_attributes(_facts(record))
        if record.outcome in _FAILED:
            span.set_status(StatusCode.ERROR)
        span.end()


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _facts(record: RequestRecord) -> dict[str, AttributeValue]:
    """The facts of the access line, without tenant and key."""
    facts: dict[str, AttributeValue | None] = {
        "http.response.status_code": record.status or None,
        "gen_ai.request.model": record.model,
        "error.type": record.reason,
        "specgate.request_id": record.request_id,
        "specgate.outcome": record.outcome,
        "specgate.attempts": record.attempts,
        "specgate.stream": record.stream,
    }
    if record.usage is not None:
        facts["gen_ai.usage.input_tokens"] = record.usage.prompt_tokens
        facts["gen_ai.usage.output_tokens"] = record.usage.completion_tokens
    if record.acceptance is not None:
        facts["specgate.draft_tokens"] = record.acceptance.drafted
        facts["specgate.accepted_tokens"] = record.acceptance.accepted
    return {name: value for name, value in facts.items() if value is not None}
