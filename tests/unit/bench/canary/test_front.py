"""What a canary has counted, read over HTTP, and the ends that are waited for."""

from typing import Any

import pytest

from bench.canary.front import CanaryError, read_counts, wait_until_idle, wait_until_settled
from tests.fakes.worker import FakeWorker
from tests.integration.running import running_gateway

ALL: dict[str, Any] = {"share": 1.0, "most_time": 1.0, "shut_after": 1}
BODY: dict[str, Any] = {
    "model": "fake-model",
    "messages": [{"role": "user", "content": "Say hello."}],
    "temperature": 0,
}
WRONG = {"chunks": 2, "tokens_per_chunk": 4, "wrong_token": 1}


async def test_results_skipped_requests_and_shut_sources_are_counted() -> None:
    async with FakeWorker() as worker, running_gateway(worker, canary=ALL) as gateway:
        await gateway.client.post("/v1/chat/completions", json={**BODY, "fake": WRONG})
        wrong = await wait_until_settled(gateway.port, 1, within_seconds=5.0)
        worker.state.is_plain = True
        await gateway.client.post("/v1/chat/completions", json={**BODY, "fake": WRONG})

        counts = await wait_until_settled(gateway.port, 2, within_seconds=5.0)

    assert (wrong.compared["differs"], wrong.settled, wrong.shut) == (1, 1, 1)
    assert (counts.skipped["plain_worker"], counts.settled) == (1, 2)


async def test_requests_that_are_never_asked_again_are_an_error() -> None:
    async with FakeWorker() as worker, running_gateway(worker) as gateway:
        assert (await read_counts(gateway.port)).settled == 0
        with pytest.raises(CanaryError, match="0 of 1 requests"):
            await wait_until_settled(gateway.port, 1, within_seconds=0.0)


async def test_a_worker_that_is_never_idle_is_an_error() -> None:
    async with FakeWorker() as worker:
        worker.state.active = 1
        with pytest.raises(CanaryError, match="never idle"):
            await wait_until_idle(worker.port, within_seconds=0.2)
        worker.state.active = 0
        await wait_until_idle(worker.port, within_seconds=5.0)


async def test_a_gateway_that_is_gone_is_an_error() -> None:
    with pytest.raises(CanaryError, match="/metrics"):
        await read_counts(1)
