import asyncio
import re
from typing import Any

import pytest

from gateway.errors import DrainingError
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import running
from tests.unit.gateway.serving.served import Served


@pytest.mark.parametrize(
    ("stream", "script", "stream_end"),
    [
        (False, {"hang_before_headers": True}, None),
        (True, {"hang_before_headers": True}, None),
        (True, {"hang_after_chunks": 1}, "cancelled"),
    ],
    ids=["whole", "stream-not-begun", "stream"],
)
async def test_a_client_that_leaves_frees_slot_and_worker(
    worker: FakeWorker, stream: bool, script: dict[str, Any], stream_end: str | None
) -> None:
    async with running(worker.url) as application:
        served = Served(stream=stream, **script)
        task = asyncio.create_task(served.by(application.services))
        await eventually(lambda: worker.active == 1)
        assert application.services.admission.slots.running == 1
        await asyncio.sleep(0.02)

        task.cancel()
        await asyncio.wait({task})

        assert task.cancelled()
        assert application.services.admission.slots.running == 0
        assert application.services.pool.workers[0].in_flight == 0
        await eventually(lambda: worker.requests[0].aborted, within_seconds=1)
    assert served.record.stream_end == stream_end


async def test_the_end_of_a_drain_ends_all_requests(worker: FakeWorker) -> None:
    admission = {"max_running_requests": 2, "max_queued_requests": 5}
    async with running(worker.url, admission=admission) as application:
        services = application.services
        stream = Served(stream=True, hang_after_chunks=1)
        whole, queued = Served(hang_before_headers=True), Served()
        tasks = [asyncio.create_task(each.by(services)) for each in (stream, whole, queued)]
        await eventually(lambda: stream.sink.started and worker.active == 2)
        await eventually(lambda: services.admission.slots.queued == 1)

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
async def test_the_end_of_a_drain_delivers_what_arrived_and_one_error(
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
    assert b"".join(texts).count(b" one two three four") in (5, 6)  # one may be on its way
