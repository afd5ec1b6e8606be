import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.admission import ANONYMOUS, Caller, KeyLimits
from gateway.api import Services
from gateway.errors import (
    DrainingError,
    GatewayError,
    ModelNotFoundError,
    NoHealthyWorkerError,
    PermissionDeniedError,
    UpstreamError,
    WorkerLostError,
    WorkerTimeoutError,
)
from gateway.protocol import KEEP_ALIVE, Endpoint
from gateway.serving import Call
from gateway.types import Acceptance, RequestId, RequestRecord, SourceCount, Usage
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import Application, running
from tests.unit.gateway.canned_server import CannedServer, ok
from tests.unit.gateway.ends import RecordingSink
from tests.unit.gateway.json_log import json_log
from tests.unit.gateway.requests import CHAT, MESSAGES

PREDICTION = {"prediction": {"type": "content", "content": "ab"}}
LIMITED = Caller("acme", "k", KeyLimits(tokens_per_minute=1000))


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as started:
        yield started


class Served:
    """One call and what became of it."""

    def __init__(
        self,
        *,
        sink: RecordingSink | None = None,
        caller: Caller = ANONYMOUS,
        endpoint: Endpoint = CHAT,
        stream: bool = False,
        model: str | None = None,
        more: Mapping[str, Any] | None = None,
        **fake: object,
    ) -> None:
        body: dict[str, Any] = {"messages": [], "stream": stream, "fake": fake, "max_tokens": 100}
        body |= more or {}
        if model is not None:
            body["model"] = model
        self.sink = sink or RecordingSink()
        self.call = Call(endpoint, caller, json.dumps(body).encode(), "wire-1", {"accept": "a"})
        self.record = RequestRecord(RequestId("r"), endpoint.path, "POST", 0.0)
        self.error: GatewayError | None = None

    async def by(self, services: Services) -> "Served":
        try:
            await services.serving.serve(self.call, self.sink, self.record)
        except GatewayError as error:
            self.error = error
        return self


@asynccontextmanager
async def running_before(server: CannedServer, **settings: Any) -> AsyncIterator[Application]:
    """A gateway before a server whose address is known only once it runs."""
    async with running(server.url, **settings) as application:
        yield application


async def tokens_left(services: Services) -> int:
    async with services.gate.enter(LIMITED, estimated_tokens=0) as entry:
        entry.used_tokens = 0
        return int(dict(entry.headers)[b"x-ratelimit-remaining-tokens"])


async def test_a_whole_answer_is_relayed_and_recorded(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        served = await Served(chunks=3, drafted=10, accepted=6).by(application.services)

    record = served.record
    assert served.error is None
    assert (served.sink.status, served.sink.ended) == (200, True)
    assert json.loads(served.sink.body)["object"] == "chat.completion"
    assert (record.outcome, record.attempts, record.model) == ("completed", 1, "fake-model")
    assert record.usage == Usage(7, 3)
    assert record.acceptance is not None
    assert record.acceptance.sources == {"native": SourceCount(10, 6)}
    assert record.stream_end is None


async def test_the_worker_gets_our_headers_and_fields(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        await Served().by(application.services)

    (seen,) = worker.requests
    assert (seen.headers["x-request-id"], seen.headers["accept"]) == ("wire-1", "a")
    assert {"cache_salt", "vllm_xargs"} < seen.json().keys()


async def test_a_stream_is_relayed_and_recorded(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        served = await Served(stream=True, chunks=3, drafted=4, accepted=2).by(application.services)

    record = served.record
    assert served.sink.body.endswith(b"data: [DONE]\n\n")
    assert b'"usage":{' not in served.sink.body
    assert (record.outcome, record.stream_end, record.stream) == ("completed", "completed", True)
    assert record.usage == Usage(7, 3)
    assert isinstance(record.acceptance, Acceptance)
    assert record.first_token_seconds is not None
    count = ("gateway_inter_token_seconds_count", {"stage": "client"})
    await eventually(lambda: application.registry.get_sample_value(*count) == 2)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_refusal_of_the_worker_is_the_callers_and_costs_nothing(
    worker: FakeWorker, stream: bool
) -> None:
    async with running(worker.url) as application:
        served = await Served(stream=stream, caller=LIMITED, status=400).by(application.services)
        left = await tokens_left(application.services)

    assert served.error is not None
    assert (served.error.status, served.error.outcome) == (400, "caller_error")
    assert not served.sink.started
    assert left == 1000


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_true_usage_replaces_the_estimate(worker: FakeWorker, stream: bool) -> None:
    async with running(worker.url) as application:
        served = await Served(stream=stream, caller=LIMITED, chunks=3).by(application.services)
        left = await tokens_left(application.services)

    assert (b"x-ratelimit-limit-tokens", b"1000") in served.sink.headers
    assert left == 1000 - 7 - 3


async def test_without_a_count_the_estimate_is_kept(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        await Served(stream=True, caller=LIMITED, drop_after_chunks=2).by(application.services)
        left = await tokens_left(application.services)

    assert left < 900


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_request_that_was_lost_unanswered_is_sent_again(
    worker: FakeWorker, stream: bool
) -> None:
    async with running(worker.url) as application:
        await worker.stop()  # closes what the gateway keeps open
        await worker.start()
        worker.state.fail_next_connections = 1
        served = await Served(stream=stream).by(application.services)

    assert served.error is None
    assert (served.record.attempts, served.record.outcome) == (2, "completed")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_request_that_kills_workers_is_given_up(worker: FakeWorker, stream: bool) -> None:
    async with running(worker.url, request={"max_replays": 2}) as application:
        served = await Served(stream=stream, drop_before_headers=True).by(application.services)

    assert isinstance(served.error, WorkerLostError)
    assert served.record.attempts == 3
    assert len(worker.requests) == 3
    assert not served.sink.started


@pytest.mark.parametrize(
    "script", [{"truncate_unary": True}, {"drop_after_headers": True}], ids=str
)
async def test_a_half_answer_is_never_sent_but_asked_for_again(
    worker: FakeWorker, script: dict[str, Any]
) -> None:
    async with running(worker.url, request={"max_replays": 1}) as application:
        served = await Served(**script).by(application.services)

    assert isinstance(served.error, WorkerLostError)
    assert (served.record.attempts, served.sink.started) == (2, False)


@pytest.mark.parametrize(
    ("endpoint", "event"),
    [(CHAT, b'data: {"error"'), (MESSAGES, b"event: error\n")],
    ids=["chat", "messages"],
)
@pytest.mark.parametrize(
    "script",
    [
        {"drop_after_chunks": 2},
        {"cut_in_frame": 2},
        {"error_frame_after_chunks": 2},
        {"no_done": True},
    ],
    ids=str,
)
async def test_a_stream_that_breaks_ends_in_one_error_event(
    worker: FakeWorker, endpoint: Endpoint, event: bytes, script: dict[str, Any]
) -> None:
    async with running(worker.url) as application:
        served = await Served(endpoint=endpoint, stream=True, **script).by(application.services)

    frames = served.sink.body.split(b"\n\n")
    assert served.error is None
    assert served.sink.ended
    assert [frame.startswith(event) for frame in frames[-2:]] == [True, False]
    assert sum(frame.startswith(event) for frame in frames) == 1
    assert b"[DONE]" not in served.sink.body
    assert (served.record.stream_end, served.record.status) == ("error_event", 200)
    assert served.record.outcome == "upstream_error"
    assert served.record.attempts == 1


async def test_a_failure_after_a_keep_alive_is_an_error_event(worker: FakeWorker) -> None:
    async with running(worker.url, stream={"keep_alive_seconds": 0.03}) as application:
        served = await Served(stream=True, delay_headers_seconds=0.1, status=400).by(
            application.services
        )

    assert served.sink.body.startswith(KEEP_ALIVE)
    assert served.sink.body.count(b'{"error"') == 1
    assert served.record.stream_end == "error_event"
    assert served.record.outcome == "caller_error"


async def test_after_a_keep_alive_a_lost_request_is_still_sent_again(worker: FakeWorker) -> None:
    settings: dict[str, Any] = {
        "stream": {"keep_alive_seconds": 0.03},
        "request": {"max_replays": 1},
    }
    async with running(worker.url, **settings) as application:
        served = await Served(stream=True, delay_headers_seconds=0.1, drop_before_headers=True).by(
            application.services
        )

    assert served.record.attempts == 2
    assert served.sink.body.count(b'{"error"') == 1


async def test_a_whole_answer_to_a_streaming_request_is_passed_on() -> None:
    models = b'{"data":[{"id":"m"}],"choices":[]}'
    server = CannedServer(ok(models, b"connection: close"))
    async with server, running_before(server) as application:
        served = await Served(stream=True).by(application.services)

    assert served.error is None
    assert (served.sink.body, served.record.outcome) == (models, "completed")
    assert served.record.stream_end is None


async def test_a_whole_answer_after_a_keep_alive_is_an_error_event() -> None:
    class Slow(CannedServer):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.1)
            await super()._serve(reader, writer)

    server = Slow(ok(b'{"data":[{"id":"m"}]}', b"connection: close"))
    async with server, running_before(server, stream={"keep_alive_seconds": 0.03}) as application:
        served = await Served(stream=True).by(application.services)

    assert served.sink.body.startswith(KEEP_ALIVE)
    assert served.record.stream_end == "error_event"


async def test_a_worker_that_fails_and_is_dying_counts_as_lost(worker: FakeWorker) -> None:
    settings: dict[str, Any] = {"request": {"wait_for_worker_seconds": 0.2}}
    async with running(worker.url, **settings) as application:
        worker.healthy = False
        served = await Served(status=500).by(application.services)

    assert isinstance(served.error, NoHealthyWorkerError)
    assert not application.services.pool.is_ready


async def test_a_worker_that_fails_and_is_healthy_keeps_its_place(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        served = await Served(status=500).by(application.services)
        assert application.services.pool.is_ready

    assert isinstance(served.error, UpstreamError)
    assert (served.error.status, served.record.attempts) == (502, 1)


@pytest.mark.parametrize("model", ["fake-model", None], ids=["named", "meant"])
async def test_a_key_for_other_models_reaches_no_worker(
    worker: FakeWorker, model: str | None
) -> None:
    caller = Caller("acme", "k", KeyLimits(), models=("other",))
    async with running(worker.url) as application:
        served = await Served(model=model, caller=caller).by(application.services)

    assert isinstance(served.error, PermissionDeniedError)
    assert (served.error.status, served.error.param) == (403, "model")
    assert worker.requests == []


async def test_an_unknown_model_reaches_no_worker_and_no_label(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        served = await Served(model="nope").by(application.services)

    assert isinstance(served.error, ModelNotFoundError)
    assert (served.record.model, served.record.attempts) == ("unknown", 0)
    assert worker.requests == []


async def test_a_model_that_nobody_has_told_of_yet_is_waited_for() -> None:
    settings = {"request": {"wait_for_worker_seconds": 0.05}}
    async with running("http://127.0.0.1:1", ready=False, **settings) as application:
        served = await Served(model="perhaps").by(application.services)

    assert isinstance(served.error, NoHealthyWorkerError)
    assert served.record.model == "unknown"


async def test_a_request_lives_so_long(worker: FakeWorker) -> None:
    async with running(worker.url, request={"total_seconds": 0.1}) as application:
        served = await Served(hang_before_headers=True).by(application.services)

    assert isinstance(served.error, WorkerTimeoutError)
    await eventually(lambda: worker.requests[0].aborted, within_seconds=1)


async def test_a_slow_client_is_given_up(worker: FakeWorker) -> None:
    sink = RecordingSink(stuck_after=1)
    settings: dict[str, Any] = {"stream": {"client_stuck_seconds": 0.1, "keep_alive_seconds": 0.05}}
    async with running(worker.url, **settings) as application:
        served = Served(sink=sink, stream=True, chunks=1000, gap_seconds=0.01)
        await served.by(application.services)

    assert served.error is None
    assert not sink.ended
    assert (served.record.outcome, served.record.reason) == ("cancelled", "slow_client")
    assert served.record.stream_end == "cancelled"
    await eventually(lambda: worker.requests[0].aborted, within_seconds=1)


@pytest.mark.parametrize(
    ("stream", "script", "stream_end"),
    [
        (False, {"hang_before_headers": True}, None),
        (True, {"hang_before_headers": True}, None),
        (True, {"hang_after_chunks": 1}, "cancelled"),
    ],
    ids=["whole", "stream-not-begun", "stream"],
)
async def test_whoever_leaves_frees_place_and_worker(
    worker: FakeWorker, stream: bool, script: dict[str, Any], stream_end: str | None
) -> None:
    async with running(worker.url) as application:
        served = Served(stream=stream, **script)
        task = asyncio.create_task(served.by(application.services))
        await eventually(lambda: worker.active == 1)
        assert application.services.gate.places.running == 1
        await asyncio.sleep(0.02)

        task.cancel()
        await asyncio.wait({task})

        assert task.cancelled()
        assert application.services.gate.places.running == 0
        assert application.services.pool.workers[0].in_flight == 0
        await eventually(lambda: worker.requests[0].aborted, within_seconds=1)
    assert served.record.stream_end == stream_end


async def test_the_end_of_a_drain_ends_everything_in_order(worker: FakeWorker) -> None:
    admission = {"max_running_requests": 2, "max_queued_requests": 5}
    async with running(worker.url, admission=admission) as application:
        services = application.services
        stream = Served(stream=True, hang_after_chunks=1)
        whole, queued = Served(hang_before_headers=True), Served()
        tasks = [asyncio.create_task(each.by(services)) for each in (stream, whole, queued)]
        await eventually(lambda: stream.sink.started and worker.active == 2)
        await eventually(lambda: services.gate.places.queued == 1)

        services.serving.end_all()
        await asyncio.gather(*tasks)
        late = await Served().by(services)

    assert b'"code": "overloaded"' in stream.sink.body
    assert (stream.sink.ended, stream.record.stream_end) == (True, "error_event")
    assert isinstance(whole.error, DrainingError)
    assert isinstance(queued.error, DrainingError)
    assert isinstance(late.error, DrainingError)
    assert len(worker.requests) == 2


@pytest.mark.parametrize("mode", ["smooth", "private", "off"])
async def test_the_end_of_a_drain_gives_what_came_and_one_error_soon(
    worker: FakeWorker, mode: str
) -> None:
    pacing = {"mode": mode, "private_start_ms": 20.0, "private_least_seconds": 60.0}
    burst: dict[str, Any] = {
        "text": [" one two three four"],
        "tokens_per_chunk": 4,
        "gap_seconds": 0.03,
    }
    async with running(worker.url, pacing=pacing) as application:
        stream = Served(stream=True, chunks=8, hang_after_chunks=6, **burst)
        task = asyncio.create_task(stream.by(application.services))
        await eventually(lambda: [r.chunks_sent for r in worker.requests] == [6])

        application.services.serving.end_all()
        async with asyncio.timeout(2):
            await task

    assert stream.sink.ended
    assert stream.sink.body.count(b'"error"') == 1
    texts = re.findall(rb'"content":"([^"]*)"', stream.sink.body)
    assert b"".join(texts).count(b" one two three four") in (5, 6)  # the last may be on its way


async def test_requests_go_to_another_worker_when_one_is_lost() -> None:
    async with FakeWorker() as first, FakeWorker() as second:
        async with running(first.url, second.url) as application:
            services = application.services
            await eventually(lambda: all(worker.up for worker in services.pool.workers))
            await first.stop()
            served = [await Served().by(services) for _ in range(10)]

        assert all(each.error is None for each in served)
        assert len(second.requests) == 10


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_prediction_reaches_the_worker_as_ids(worker: FakeWorker, stream: bool) -> None:
    async with running(worker.url) as application:
        served = await Served(stream=stream, more=PREDICTION).by(application.services)

    (seen,) = worker.requests
    (asked,) = worker.tokenize_requests
    assert served.error is None
    assert "prediction" not in seen.json()
    assert seen.json()["vllm_xargs"]["specgate_prediction"] == [97, 98]
    assert (asked.json()["model"], served.record.attempts) == ("fake-model", 1)


async def test_a_request_without_a_prediction_asks_for_no_tokens(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        await Served().by(application.services)
        await Served(more={**PREDICTION, "speculation": {"mode": "off"}}).by(application.services)

    assert len(worker.requests) == 2
    assert worker.tokenize_requests == []


async def test_a_prediction_that_cannot_be_tokenized_fails_no_request_and_no_worker(
    worker: FakeWorker,
) -> None:
    worker.state.tokenizing = "hangs"
    settings: dict[str, Any] = {
        "request": {"tokenize_seconds": 0.05},
        "upstream": {"breaker_failures": 1, "probe_seconds": 30},
    }
    with json_log() as log:
        async with running(worker.url, **settings) as application:
            served = [await Served(more=PREDICTION).by(application.services) for _ in range(3)]
            assert application.services.pool.is_ready

    assert [(each.error, each.record.attempts) for each in served] == [(None, 1)] * 3
    assert all("specgate_prediction" not in r.json()["vllm_xargs"] for r in worker.requests)
    assert len(log.of("prediction_dropped")) == 3


async def test_ids_are_kept_when_the_worker_is_lost_after_it_said_them(worker: FakeWorker) -> None:
    worker.state.drop_next_answers = 1
    async with running(worker.url) as application:
        served = await Served(more=PREDICTION).by(application.services)

    sent = [request.json()["vllm_xargs"]["specgate_prediction"] for request in worker.requests]
    assert (served.error, served.record.attempts) == (None, 2)
    assert len(worker.tokenize_requests) == 1
    assert sent == [[97, 98]] * 2


async def test_another_worker_tokenizes_when_one_is_not_there() -> None:
    async with FakeWorker() as first, FakeWorker() as second:
        async with running(first.url, second.url) as application:
            services = application.services
            await eventually(lambda: all(worker.up for worker in services.pool.workers))
            await first.stop()
            served = [await Served(more=PREDICTION).by(services) for _ in range(10)]

        assert all(each.error is None for each in served)
        sent = [request.json()["vllm_xargs"] for request in second.requests]
        assert [xargs["specgate_prediction"] for xargs in sent] == [[97, 98]] * 10
