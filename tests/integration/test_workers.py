"""Several workers: load is spread, and failed workers get no requests until they recover."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from tests.fakes.script import Script
from tests.fakes.worker import FakeWorker
from tests.integration import running
from tests.integration.apis import CHAT
from tests.integration.running import RunningGateway
from tests.integration.waiting import eventually

# By load alone: requests that are all the same would follow each other to one worker.
running_gateway = partial(running.running_gateway, routing={"rule": "least_loaded"})
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


async def _until_all_up(gateway: RunningGateway, *workers: FakeWorker) -> None:
    await eventually(
        lambda: all(gateway.metric("gateway_worker_up", worker=_name(w)) == 1 for w in workers)
    )


async def _health(gateway: RunningGateway, worker: FakeWorker) -> dict[str, Any]:
    answer = await gateway.client.get("/health/workers")
    found = {entry["worker"]: entry for entry in answer.json()["workers"]}
    return dict(found[_name(worker)])


async def test_load_is_spread(worker: FakeWorker, other: FakeWorker) -> None:
    async with running_gateway(worker, other) as gateway:
        await _until_all_up(gateway, worker, other)
        asking = [asyncio.create_task(_ask(gateway, fake=_HANG)) for _ in range(60)]
        await eventually(lambda: worker.active + other.active == 60)

        assert abs(worker.active - other.active) <= 2
        for task in asking:
            task.cancel()


async def test_dead_worker_is_avoided_before_a_probe_fails(
    worker: FakeWorker, other: FakeWorker
) -> None:
    async with running_gateway(worker, other, upstream=_NO_PROBES) as gateway:
        await _until_all_up(gateway, worker, other)
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
        await _until_all_up(gateway, worker, other)
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


_FAILING: dict[str, tuple[Script, bool]] = {
    "500": (Script(status=500), False),
    "500_to_a_stream": (Script(status=500), True),
    "503": (Script(status=503), False),
    "401": (Script(status=401), False),
    "redirect": (Script(status=307, headers={"location": "http://10.0.0.1/secret"}), False),
    "lost": (Script(drop_before_headers=True), False),
    "lost_after_headers": (Script(drop_after_headers=True), True),
    "no_stream": (Script(bad_json_frame=0), True),
}


@pytest.mark.parametrize(("script", "stream"), _FAILING.values(), ids=_FAILING)
async def test_a_worker_that_fails_at_once_is_ejected_and_no_client_sees_an_error(
    script: Script, stream: bool
) -> None:
    async with FakeWorker() as failing, FakeWorker() as one, FakeWorker() as two:
        failing.state.script = script
        upstream = {"breaker_seconds": 60.0, "breaker_max_seconds": 60.0}
        async with running_gateway(failing, one, two, upstream=upstream) as gateway:
            await _until_all_up(gateway, failing, one, two)
            statuses: list[int] = []
            while not gateway.metric("gateway_worker_ejected", worker=_name(failing)):
                statuses += await asyncio.gather(*(_ask(gateway, stream=stream) for _ in range(8)))
            before = len(failing.requests)

            for _ in range(25):
                statuses += await asyncio.gather(*(_ask(gateway, stream=stream) for _ in range(8)))
            shown = await _health(gateway, failing)

            assert set(statuses) == {200}
            assert len(failing.requests) - before < 200 * 0.02
            assert before >= 5
            assert (shown["up"], shown["ejected"], shown["ejections"]) == (True, True, 1)


async def test_an_ejected_worker_that_recovers_gets_requests_again(
    worker: FakeWorker, other: FakeWorker
) -> None:
    other.state.script = Script(status=500)
    async with running_gateway(worker, other, upstream={"breaker_seconds": 0.1}) as gateway:
        await _until_all_up(gateway, worker, other)
        while not gateway.metric("gateway_worker_ejected", worker=_name(other)):
            await _ask(gateway)
        other.state.script = None
        before = len(other.requests)
        while gateway.metric("gateway_worker_ejected", worker=_name(other)):
            assert await _ask(gateway) == 200

        assert len(other.requests) == before + 1  # the trial
        statuses = [await _ask(gateway) for _ in range(50)]
        assert set(statuses) == {200}
        assert len(other.requests) > before + 1


async def test_if_all_workers_fail_at_most_half_are_ejected() -> None:
    workers = [FakeWorker() for _ in range(4)]
    async with AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
            worker.state.script = Script(status=500)
        upstream = {"breaker_failures": 2, "breaker_seconds": 60.0, "breaker_max_seconds": 60.0}
        async with running_gateway(*workers, upstream=upstream) as gateway:
            await _until_all_up(gateway, *workers)
            statuses = [await _ask(gateway) for _ in range(100)]
            shown = [await _health(gateway, worker) for worker in workers]
            ready = await gateway.client.get("/health/ready")

        assert set(statuses) == {502}
        assert sum(entry["ejected"] for entry in shown) == 2
        assert ready.status_code == 200


async def test_a_request_that_fails_everywhere_is_tried_on_three_workers_once_each() -> None:
    workers = [FakeWorker() for _ in range(4)]
    async with AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
        async with running_gateway(*workers) as gateway:
            await _until_all_up(gateway, *workers)
            status = await _ask(gateway, fake={"status": 500})

    assert status == 502
    assert sorted(len(worker.requests) for worker in workers) == [0, 1, 1, 1]


async def test_a_busy_worker_is_passed_over_but_not_ejected(
    worker: FakeWorker, other: FakeWorker
) -> None:
    other.state.script = Script(status=503, headers={"retry-after": "7"})
    async with running_gateway(worker, other) as gateway:
        await _until_all_up(gateway, worker, other)
        statuses = [await _ask(gateway) for _ in range(50)]
        shown = await _health(gateway, other)
        worker.state.script = other.state.script
        refused = await gateway.client.post(CHAT.path, json=CHAT.body())

        assert set(statuses) == {200}
        assert len(other.requests) > 5
        assert not shown["ejected"]
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "7")
        assert refused.json()["error"]["code"] == "overloaded"


async def test_an_only_worker_is_not_ejected(worker: FakeWorker) -> None:
    async with running_gateway(worker, request={"max_replays": 0}) as gateway:
        failed = [await _ask(gateway, fake={"status": 500}) for _ in range(10)]
        lost = [await _ask(gateway, fake=_LOST) for _ in range(10)]
        ready = await gateway.client.get("/health/ready")
        after = await _ask(gateway)

    assert (set(failed), set(lost)) == ({502}, {502})
    assert ready.status_code == 200
    assert after == 200


async def test_requests_go_to_a_worker_that_serves_their_model(
    worker: FakeWorker, other: FakeWorker
) -> None:
    worker.state.models, other.state.models = ["one"], ["two", "three"]
    async with running_gateway(worker, other) as gateway:
        await _until_all_up(gateway, worker, other)
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


async def test_many_callers_of_speculation_cause_one_request_a_second(
    worker: FakeWorker, other: FakeWorker
) -> None:
    async with running_gateway(worker, other) as gateway:
        began = time.monotonic()
        asking = [gateway.client.get("/speculation") for _ in range(200)]
        answers = await asyncio.gather(*asking)
        seconds = time.monotonic() - began

    assert {answer.status_code for answer in answers} == {200}
    assert {len(answer.json()["workers"]) for answer in answers} == {2}
    # The gateway itself asks every 5 s.
    assert 1 <= worker.state.paths["/speculation"] <= 3 + seconds
    assert 1 <= other.state.paths["/speculation"] <= 3 + seconds
