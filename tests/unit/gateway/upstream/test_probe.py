import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.upstream import Pool, ProbePolicy, Prober, Worker
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.canned_server import CannedServer, ok
from tests.unit.gateway.upstream.workers import make_worker, pool_of

POLICY = ProbePolicy(interval_seconds=0.01, timeout_seconds=0.1, failures=3, models_seconds=0.02)


def serving_models(body: bytes) -> CannedServer:
    return CannedServer(ok(body, b"connection: close"))


@asynccontextmanager
async def probed(url: str) -> AsyncIterator[tuple[Prober, Worker, Pool]]:
    worker = make_worker("w", url)
    async with pool_of([worker]) as pool:
        yield Prober(pool, POLICY), worker, pool


@pytest.mark.parametrize("is_gone", [False, True], ids=["unhealthy", "gone"])
async def test_a_worker_that_is_dead_or_gone_is_down_at_once(is_gone: bool) -> None:
    async with FakeWorker() as fake, probed(fake.url) as (prober, worker, pool):
        assert await prober.check(worker)
        assert pool.is_ready
        fake.healthy = False
        if is_gone:
            await fake.stop()

        assert not await prober.check(worker)

        assert not worker.up


async def test_a_slow_worker_is_down_after_consecutive_failures() -> None:
    async with FakeWorker() as fake, probed(fake.url) as (prober, worker, _):
        seen = []
        for delay in (0, 1, 1, 0, 1, 1, 1):  # a success resets the count
            fake.state.health_delay_seconds = delay
            await prober.check(worker)
            seen.append(worker.up)

        assert seen == [*[True] * 6, False]


async def test_checks_at_the_same_time_share_one_probe() -> None:
    async with FakeWorker() as fake, probed(fake.url) as (prober, worker, _):
        results = await asyncio.gather(*(prober.check(worker) for _ in range(50)))
        assert results == [True] * 50
        assert fake.state.paths["/health"] == 1

        assert await prober.check(worker)
        assert fake.state.paths["/health"] == 2


@pytest.mark.parametrize("body", [b"oops", b"[]", b"{}", b'{"data":{}}', b'{"data":"x"}'], ids=repr)
async def test_a_worker_without_a_list_of_models_does_not_come_up(body: bytes) -> None:
    async with serving_models(body) as server, probed(server.url) as (prober, worker, _):
        assert not await prober.check(worker)

        assert not worker.up


async def test_only_valid_models_are_known_and_no_path_is_revealed() -> None:
    body = b'{"data":[1,null,"x",{},{"id":7},{"id":"m","root":"/srv"},{"id":"n","root":"a/n"}]}'
    async with serving_models(body) as server, probed(server.url) as (prober, worker, _):
        assert await prober.check(worker)

        roots = {name: entry["root"] for name, entry in worker.models.items()}
        assert roots == {"m": "m", "n": "a/n"}


async def test_watching_follows_a_worker_down_and_up_and_its_models() -> None:
    async with FakeWorker() as fake, probed(fake.url) as (prober, worker, _):
        task = asyncio.create_task(prober.run())
        try:
            await eventually(lambda: worker.up)
            fake.healthy = False
            await eventually(lambda: not worker.up)
            fake.healthy = True
            await eventually(lambda: worker.up)
            fake.state.models = ["another"]
            await eventually(lambda: "another" in worker.models)
        finally:
            task.cancel()
            await asyncio.wait({task})

        assert task.cancelled()


async def test_models_stay_known_if_they_cannot_be_read_again() -> None:
    body = b'{"data":[{"id":"m"}]}'
    async with serving_models(body) as server, probed(server.url) as (prober, worker, _):
        await prober.check(worker)
        server.answer = ok(b"oops", b"connection: close")
        task = asyncio.create_task(prober.run())
        await eventually(lambda: sum(b"/v1/models" in r for r in server.requests) >= 3)
        task.cancel()
        await asyncio.wait({task})

        assert worker.up
        assert list(worker.models) == ["m"]
