from collections.abc import Iterator, Mapping

import pytest
from opentelemetry.sdk.resources import SERVICE_NAME
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from gateway.errors import InvalidRequestError, WorkerLostError
from gateway.telemetry.spans import RequestSpans, Spans, exporting_provider
from gateway.types import Acceptance, RequestId, RequestRecord, SourceCount, Usage, WorkerId

CHAT = "/v1/chat/completions"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
W = WorkerId("w")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[Spans]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Spans(provider)
    yield tracing
    tracing.close()


def record(**more: object) -> RequestRecord:
    made = RequestRecord(RequestId("req-1"), CHAT, "POST", 100.0, tenant="secret-team")
    for name, value in more.items():
        setattr(made, name, value)
    return made


def ended(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def ids(span: ReadableSpan) -> tuple[str, str]:
    assert span.context is not None
    return format_trace_id(span.context.trace_id), format_span_id(span.context.span_id)


def is_sampled(carried: Mapping[str, str]) -> bool:
    """Source: W3C Trace Context, the lowest of the flags."""
    return bool(int(carried["traceparent"].rpartition("-")[2], 16) & 1)


def test_request_queue_and_attempt_are_one_trace(
    spans: Spans, exporter: InMemorySpanExporter
) -> None:
    trace = spans.begin("POST", CHAT, [])
    trace.queued(2.0)
    with trace.attempt(W) as carried:
        pass
    trace.end(record(status=200, outcome="completed"))

    found = ended(exporter)
    request, queue, worker = found[f"POST {CHAT}"], found["queue"], found["worker"]
    assert request.parent is None
    assert request.kind is SpanKind.SERVER
    assert {ids(span)[0] for span in (request, queue, worker)} == {trace.trace_id}
    for below in (queue, worker):
        assert below.parent is not None
        assert format_span_id(below.parent.span_id) == ids(request)[1]
    assert worker.kind is SpanKind.CLIENT
    assert worker.attributes == {"specgate.worker": "w"}
    assert carried.keys() == {"traceparent"}
    assert carried["traceparent"].startswith(f"00-{trace.trace_id}-{ids(worker)[1]}-")
    assert is_sampled(carried)
    assert queue.end_time is not None
    assert queue.start_time is not None
    assert queue.end_time - queue.start_time == 2_000_000_000


def test_a_tracing_caller_is_the_parent(spans: Spans, exporter: InMemorySpanExporter) -> None:
    headers = [
        (b"traceparent", f"00-{TRACE}-{PARENT}-01".encode()),
        (b"tracestate", b"vendor=1"),
        (b"authorization", b"Bearer secret"),
    ]

    trace = spans.begin("POST", CHAT, headers)
    with trace.attempt(W) as carried:
        pass
    trace.end(record())

    request = ended(exporter)[f"POST {CHAT}"]
    assert request.parent is not None
    assert format_span_id(request.parent.span_id) == PARENT
    assert trace.trace_id == TRACE
    assert carried["traceparent"].startswith(f"00-{TRACE}-")
    assert carried["tracestate"] == "vendor=1"


@pytest.mark.parametrize("sent", [b"", b"oops", b"00-0-0-01", b"\xff"], ids=repr)
def test_an_invalid_parent_begins_a_new_trace(
    spans: Spans, exporter: InMemorySpanExporter, sent: bytes
) -> None:
    spans.begin("POST", CHAT, [(b"traceparent", sent)]).end(record())

    assert ended(exporter)[f"POST {CHAT}"].parent is None


def test_a_request_that_the_caller_does_not_sample_is_not_sampled(
    spans: Spans, exporter: InMemorySpanExporter
) -> None:
    trace = spans.begin("POST", CHAT, [(b"traceparent", f"00-{TRACE}-{PARENT}-00".encode())])
    with trace.attempt(W) as carried:
        pass
    trace.end(record())

    assert ended(exporter) == {}
    assert not is_sampled(carried)


def test_spans_have_the_facts_without_tenant_and_key(
    spans: Spans, exporter: InMemorySpanExporter
) -> None:
    trace = spans.begin("POST", CHAT, [])
    trace.end(
        record(
            status=200,
            outcome="completed",
            model="m",
            attempts=1,
            stream=True,
            first_token_seconds=100.25,
            usage=Usage(7, 5, 2),
            acceptance=Acceptance(2, 2.5, {"suffix": SourceCount(10, 6)}),
        )
    )

    span = ended(exporter)[f"POST {CHAT}"]
    assert span.attributes == {
        "http.request.method": "POST",
        "http.route": CHAT,
        "http.response.status_code": 200,
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 5,
        "specgate.request_id": "req-1",
        "specgate.outcome": "completed",
        "specgate.attempts": 1,
        "specgate.stream": True,
        "specgate.draft_tokens": 10,
        "specgate.accepted_tokens": 6,
    }
    (event,) = span.events
    assert span.start_time is not None
    assert event.name == "first_token"
    assert event.timestamp - span.start_time == pytest.approx(250_000_000, abs=50_000_000)
    assert "secret-team" not in span.to_json()


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("completed", StatusCode.UNSET),
        ("caller_error", StatusCode.UNSET),
        ("rejected", StatusCode.UNSET),
        ("cancelled", StatusCode.UNSET),
        ("upstream_error", StatusCode.ERROR),
        ("internal_error", StatusCode.ERROR),
    ],
)
def test_only_our_failures_are_errors(
    spans: Spans, exporter: InMemorySpanExporter, outcome: str, status: StatusCode
) -> None:
    spans.begin("POST", CHAT, []).end(record(outcome=outcome, reason="why"))

    span = ended(exporter)[f"POST {CHAT}"]
    assert span.status.status_code is status
    assert span.attributes is not None
    assert span.attributes["error.type"] == "why"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (WorkerLostError("gone", sent=True), StatusCode.ERROR),
        (InvalidRequestError("no"), StatusCode.UNSET),
    ],
    ids=["lost", "refused"],
)
def test_a_failed_attempt_has_its_error_type(
    spans: Spans, exporter: InMemorySpanExporter, error: Exception, status: StatusCode
) -> None:
    trace = spans.begin("POST", CHAT, [])

    with pytest.raises(type(error)), trace.attempt(W):
        raise error

    worker = ended(exporter)["worker"]
    assert worker.status.status_code is status
    assert worker.attributes is not None
    assert worker.attributes["error.type"]
    assert worker.events == ()


@pytest.mark.parametrize(
    ("variables", "name"),
    [({}, "specgate-gateway"), ({"OTEL_SERVICE_NAME": "mine"}, "mine")],
    ids=["ours", "set"],
)
def test_the_service_has_a_name(
    variables: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)

    provider = exporting_provider("http://127.0.0.1:1/v1/traces", sample_ratio=1.0)
    provider.shutdown()

    assert provider.resource.attributes[SERVICE_NAME] == name


@pytest.mark.parametrize(("ratio", "sampled"), [(0.0, False), (1.0, True)])
def test_the_sample_ratio_is_applied(ratio: float, sampled: bool) -> None:
    tracing = Spans(exporting_provider("http://127.0.0.1:1/v1/traces", sample_ratio=ratio))
    trace: RequestSpans = tracing.begin("POST", CHAT, [])

    with trace.attempt(W) as carried:
        pass
    tracing.close()

    assert is_sampled(carried) is sampled
