from typing import Any

import pytest

from gateway.errors import NoHealthyWorkerError, UpstreamError, WorkerLostError
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import running
from tests.unit.gateway.serving.served import Served


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


async def test_requests_go_to_another_worker_when_one_is_lost() -> None:
    async with FakeWorker() as first, FakeWorker() as second:
        async with running(first.url, second.url) as application:
            services = application.services
            await eventually(lambda: all(worker.up for worker in services.pool.workers))
            await first.stop()
            served = [await Served().by(services) for _ in range(10)]

        assert all(each.error is None for each in served)
        assert len(second.requests) == 10
