from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import running
from tests.unit.gateway.json_log import json_log
from tests.unit.gateway.serving.served import Served

PREDICTION = {"prediction": {"type": "content", "content": "ab"}}


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
