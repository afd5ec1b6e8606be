import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from gateway.types import WorkerId
from gateway.upstream import Discovery, DiscoveryPolicy, Pool, Prober, Worker, WorkerAddress
from gateway.upstream.discovery import resolve_host
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.json_log import json_log
from tests.unit.gateway.upstream.test_probe import POLICY as PROBES
from tests.unit.gateway.upstream.workers import Observations, make_worker, pool_of
from tests.unit.gateway.virtual_time import in_virtual_time

POLICY = DiscoveryPolicy(interval_seconds=5.0, timeout_seconds=2.0)


class Names:
    """A name service with a given answer: addresses, a failure, or silence."""

    def __init__(self, *addresses: str) -> None:
        self.answer: Sequence[str] | OSError | None = addresses
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        match self.answer:
            case None:
                await asyncio.Event().wait()
                raise AssertionError
            case OSError():
                raise self.answer
            case addresses:
                return addresses


def made(address: WorkerAddress) -> Worker:
    return make_worker(address.name, address.url)


@asynccontextmanager
async def discovering(
    names: Names, seen: Observations | None = None, *, port: int = 8001
) -> AsyncIterator[tuple[Discovery, Pool]]:
    async with pool_of([], seen) as pool:
        discovery = Discovery(pool, "workers", port, make=made, policy=POLICY, resolve=names)
        try:
            yield discovery, pool
        finally:
            await discovery.close()


def ids(pool: Pool) -> list[WorkerId]:
    return [worker.id for worker in pool.workers]


@in_virtual_time
async def test_workers_follow_the_addresses() -> None:
    names, seen = Names("10.0.0.2", "10.0.0.1", "10.0.0.2", "fd00::1"), Observations()
    async with discovering(names, seen) as (discovery, pool):
        await discovery.refresh()
        first = pool.workers
        await discovery.refresh()

        assert ids(pool) == ["10.0.0.1:8001", "10.0.0.2:8001", "[fd00::1]:8001"]
        assert pool.workers == first
        assert first[2].client.address.url == "http://[fd00::1]:8001"
        assert names.asked == [("workers", 8001)] * 2

        names.answer = ["10.0.0.2", "10.0.0.3"]
        await discovery.refresh()

        assert ids(pool) == ["10.0.0.2:8001", "10.0.0.3:8001"]
        assert sorted(seen.left) == ["10.0.0.1:8001", "[fd00::1]:8001"]


@pytest.mark.parametrize("answer", [socket.gaierror("no"), None], ids=["failure", "silence"])
@in_virtual_time
async def test_if_the_lookup_fails_all_stay_and_it_is_logged_once(answer: OSError | None) -> None:
    names = Names("10.0.0.1")
    async with discovering(names) as (discovery, pool):
        await discovery.refresh()
        names.answer = answer
        with json_log() as log:
            for _ in range(3):
                await discovery.refresh()

        assert ids(pool) == ["10.0.0.1:8001"]
        assert [line["event"] for line in log.lines()] == ["workers_not_resolved"]


async def test_a_leaving_worker_finishes_its_requests_and_closes_its_connections() -> None:
    async with FakeWorker() as fake:
        names = Names("127.0.0.1")
        async with discovering(names, port=fake.port) as (discovery, pool):
            await discovery.refresh()
            (worker,) = pool.workers
            assert await Prober(pool, PROBES).check(worker)
            async with pool.lease("fake-model", wait_seconds=0, avoid=set()) as leased:
                assert leased.worker is worker
                names.answer = []
                await discovery.refresh()
                await discovery.refresh()

                assert pool.workers == ()
                assert fake.connections == 1
                assert (await worker.client.get("/health", timeout_seconds=1))[0] == 200
            await discovery.refresh()

            await eventually(lambda: fake.connections == 0)


async def test_a_worker_that_joins_is_probed_and_comes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.POLICY", DiscoveryPolicy(0.01, 2.0))
    async with FakeWorker() as fake:
        names = Names()
        async with discovering(names, port=fake.port) as (discovery, pool):
            tasks = [
                asyncio.create_task(run()) for run in (Prober(pool, PROBES).run, discovery.run)
            ]
            await asyncio.sleep(0)
            names.answer = await resolve_host("localhost", fake.port)

            await eventually(lambda: pool.is_ready)
            names.answer = []
            await eventually(lambda: not pool.is_ready)

            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
