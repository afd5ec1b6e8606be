from typing import Any

import pytest

from gateway.errors import NoHealthyWorkerError, UpstreamError, WorkerLostError
from tests.fakes.worker import FakeWorker
from tests.unit.gateway.application import running
from tests.unit.gateway.serving.served import Served


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_replays_of_a_request_are_limited(worker: FakeWorker, stream: bool) -> None:
    async with running(worker.url, request={"max_replays": 2}) as application:
        served = await Served(stream=stream, drop_before_headers=True).by(application.services)

    assert isinstance(served.error, WorkerLostError)
    assert served.record.attempts == 3
    assert len(worker.requests) == 3
    assert not served.sink.started


async def test_a_worker_that_fails_and_is_dying_counts_as_lost(worker: FakeWorker) -> None:
    settings: dict[str, Any] = {"request": {"wait_for_worker_seconds": 0.2}}
    async with running(worker.url, **settings) as application:
        worker.healthy = False
        served = await Served(status=500).by(application.services)

    assert isinstance(served.error, NoHealthyWorkerError)
    assert not application.services.pool.is_ready


async def test_a_worker_that_fails_but_is_healthy_stays_up(worker: FakeWorker) -> None:
    async with running(worker.url) as application:
        served = await Served(status=500).by(application.services)
        assert application.services.pool.is_ready

    assert isinstance(served.error, UpstreamError)
    assert (served.error.status, served.record.attempts) == (502, 1)
