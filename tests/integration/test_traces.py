"""Spans reach a collector over OTLP and are the parents of the worker's spans."""

from collections.abc import Iterator

import pytest

from tests.fakes.collector import Collector, running_collector
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.running import running_gateway

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_the_span_of_an_attempt_is_the_workers_parent(
    worker: FakeWorker, collector: Collector, stream: bool
) -> None:
    async with running_gateway(worker, tracing={"endpoint": collector.endpoint}) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(stream=stream), headers=TRACED)
        await gateway.client.get("/metrics")

    assert answer.status_code == 200
    (request,) = collector.of(f"POST {CHAT.path}")
    (queue,), (attempt,) = collector.of("queue"), collector.of("worker")
    assert len(collector.spans) == 3
    assert request.trace_id.hex() == TRACE
    assert request.parent_span_id.hex() == PARENT
    assert queue.parent_span_id == attempt.parent_span_id == request.span_id
    assert worker.requests[0].headers["traceparent"] == f"00-{TRACE}-{attempt.span_id.hex()}-01"
    assert [event.name for event in request.events] == (["first_token"] if stream else [])
    assert request.start_time_unix_nano <= attempt.start_time_unix_nano
    assert attempt.end_time_unix_nano <= request.end_time_unix_nano
    assert collector.services == {"specgate-gateway"}
    assert collector.paths == {"/v1/traces"}


async def test_each_attempt_has_a_span(worker: FakeWorker, collector: Collector) -> None:
    worker.state.drop_next_answers = 1
    async with running_gateway(worker, tracing={"endpoint": collector.endpoint}) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body())

    first, second = collector.of("worker")
    assert answer.status_code == 200
    assert first.status.code == 2  # Source: OTLP's Status.STATUS_CODE_ERROR
    assert second.status.code == 0
    parents = [request.headers["traceparent"].split("-")[2] for request in worker.requests]
    assert parents == [first.span_id.hex(), second.span_id.hex()]


async def test_without_a_collector_the_callers_trace_is_forwarded(
    worker: FakeWorker,
) -> None:
    async with running_gateway(worker) as gateway:
        await gateway.client.post(CHAT.path, json=CHAT.body(), headers=TRACED)

    assert worker.requests[0].headers["traceparent"] == TRACED["traceparent"]


async def test_requests_work_without_the_collector(worker: FakeWorker) -> None:
    gone = {"endpoint": "http://127.0.0.1:1/v1/traces"}
    async with running_gateway(worker, tracing=gone) as gateway:
        answers = [await gateway.client.post(CHAT.path, json=CHAT.body()) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200] * 3
