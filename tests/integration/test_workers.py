"""Several workers: load is spread, and failed workers get no requests until they recover."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.running import RunningGateway, running_gateway
from tests.integration.waiting import eventually

_HANG = {"hang_before_headers": True}
_LOST = {"drop_before_headers": True}
_NO_PROBES = {"probe_seconds": 60.0}


@pytest.fixture
async def other() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as running:
        yield running


def _name(worker: FakeWorker) -> str:
    return f"127.0.0.1:{worker.port}"


async def _ask(gateway: RunningGateway, **more: Any) -> int:
    return (await gateway.client.post(CHAT.path, json=CHAT.body(**more))).status_code


async def _until_both_up(gateway: RunningGateway, *workers: FakeWorker) -> None:
    await eventually(
        lambda: all(gateway.metric("gateway_worker_up", worker=_name(w)) == 1 for w in workers)
    )


async def _health(gateway: RunningGateway, worker: FakeWorker) -> dict[str, Any]:
    answer = await gateway.client.get("/health/workers")
    found = {entry["worker"]: entry for entry in answer.json()["workers"]}
    return dict(found[_name(worker)])


async def test_load_is_spread(worker: FakeWorker, other: FakeWorker) -> None:
    async with running_gateway(worker, other) as gateway:
        await _until_both_up(gateway, worker, other)
        asking = [asyncio.create_task(_ask(gateway, fake=_HANG)) for _ in range(60)]
        await eventually(lambda: worker.active + other.active == 60)

        assert abs(worker.active - other.active) <= 2
        for task in asking:
            task.cancel()


async def test_dead_worker_is_avoided_before_a_probe_fails(
    worker: FakeWorker, other: FakeWorker
) -> None:
    async with running_gateway(worker, other, upstream=_NO_PROBES) as gateway:
        await _until_both_up(gateway, worker, other)
        await other.stop()

        statuses = [await _ask(gateway) for _ in range(20)]

        assert statuses == [200] * 20
        assert gateway.metric("gateway_worker_up", worker=_name(other)) == 0


async def test_restarted_worker_is_used_again(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        await worker.stop()
        await eventually(lambda: gateway.metric("gateway_worker_up", worker=_name(worker)) == 0)
        assert (await gateway.client.get("/health/ready")).status_code == 503
        assert (await gateway.client.get("/v1/models")).status_code == 200

        await worker.start()

        assert await _ask(gateway) == 200
        assert (await gateway.client.get("/health/ready")).status_code == 200


async def test_unhealthy_worker_gets_nothing_until_it_is_healthy(
    worker: FakeWorker, other: FakeWorker
) -> None:
    async with running_gateway(worker, other) as gateway:
        await _until_both_up(gateway, worker, other)
        other.healthy = False
        await eventually(lambda: gateway.metric("gateway_worker_up", worker=_name(other)) == 0)
        for _ in range(10):
            await _ask(gateway)
        assert len(other.requests) == 0

        other.healthy = True
        await eventually(lambda: gateway.metric("gateway_worker_up", worker=_name(other)) == 1)
        asking = [asyncio.create_task(_ask(gateway, fake=_HANG)) for _ in range(10)]

        await eventually(lambda: other.active > 0)
        for task in asking:
            task.cancel()


async def test_breaker_opens_and_closes_again(worker: FakeWorker) -> None:
    upstream = {"breaker_failures": 3, "breaker_seconds": 0.4}
    async with running_gateway(worker, upstream=upstream, request={"max_replays": 0}) as gateway:
        lost = [await _ask(gateway, fake=_LOST) for _ in range(3)]
        opened = await _health(gateway, worker)
        ready = await gateway.client.get("/health/ready")
        after = await _ask(gateway)  # waits for the breaker
        closed = await _health(gateway, worker)

        assert lost == [502] * 3
        assert opened["breaker"] == "open"
        assert ready.status_code == 503
        assert after == 200
        assert closed["breaker"] == "closed"


async def test_requests_go_to_a_worker_that_serves_their_model(
    worker: FakeWorker, other: FakeWorker
) -> None:
    worker.state.models, other.state.models = ["one"], ["two", "three"]
    async with running_gateway(worker, other) as gateway:
        await _until_both_up(gateway, worker, other)
        listed = (await gateway.client.get("/v1/models")).json()["data"]
        for model in ("two", "three", "one", "two"):
            await gateway.client.post(CHAT.path, json=CHAT.body() | {"model": model})

    assert sorted(entry["id"] for entry in listed) == ["one", "three", "two"]
    assert [request.json()["model"] for request in worker.requests] == ["one"]
    assert [request.json()["model"] for request in other.requests] == ["two", "three", "two"]


async def test_new_models_of_a_worker_are_noticed(worker: FakeWorker) -> None:
    async with running_gateway(worker, upstream={"models_seconds": 0.1}) as gateway:
        worker.state.models = ["fake-model", "adapter"]

        async with asyncio.timeout(2.0):
            while True:
                answer = await gateway.client.get("/v1/models/adapter")
                if answer.status_code == 200:
                    return
                await asyncio.sleep(0.02)
