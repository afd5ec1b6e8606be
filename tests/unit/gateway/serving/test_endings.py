import asyncio
import re
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import running
from tests.unit.gateway.serving.served import Served


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
