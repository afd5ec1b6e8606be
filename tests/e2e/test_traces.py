"""One trace from the caller over the gateway to vLLM's own span."""

import time

import httpx
import pytest

from tests.e2e.service import MODEL, Service
from tests.fakes.collector import Collector

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_ARRIVAL_SECONDS = 30.0


def test_the_span_of_vllm_is_a_child_of_the_attempt_that_it_served(
    service: Service, collector: Collector
) -> None:
    answer = httpx.post(
        service.url + "/v1/completions",
        json={"model": MODEL, "prompt": "One, two,", "max_tokens": 4},
        headers={"traceparent": f"00-{TRACE}-{PARENT}-01"},
        timeout=60,
    )

    assert answer.status_code == 200
    deadline = time.monotonic() + _ARRIVAL_SECONDS
    names = ("POST /v1/completions", "queue", "worker", "llm_request")
    while not all(collector.of(name, trace=TRACE) for name in names):
        assert time.monotonic() < deadline, [span.name for span in collector.spans]
        time.sleep(0.1)
    (request,), (queue,), (attempt,), (engine,) = (
        collector.of(name, trace=TRACE) for name in names
    )
    assert request.parent_span_id.hex() == PARENT
    assert queue.parent_span_id == attempt.parent_span_id == request.span_id
    assert engine.parent_span_id == attempt.span_id
    assert engine.end_time_unix_nano <= request.end_time_unix_nano
