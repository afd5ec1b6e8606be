"""Two gateways and several processes that share the limits of keys in a real redis-server."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.admission import KeyLimits
from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.process import SERVE, gateway_process
from tests.integration.redis_server import RedisServer, running_redis
from tests.integration.running import RunningGateway, running_gateway
from tests.integration.waiting import eventually

_HANG = {"hang_before_headers": True}


@pytest.fixture
def server(folder: Path) -> Iterator[RedisServer]:
    with running_redis(folder) as running:
        yield running


def _settings(folder: Path, server: RedisServer, **limits: Any) -> dict[str, Any]:
    """The sections of a gateway; its timeout is long, because this machine may be busy."""
    return {
        "keys": {"file": str(folder / "keys")},
        "limits": {"store": server.url, "timeout_seconds": 1.0, **limits},
    }


class Replicas:
    """Two gateways with the same keys and the same store."""

    def __init__(self, gateways: tuple[RunningGateway, ...], headers: dict[str, str]) -> None:
        self.gateways = gateways
        self.headers = headers

    async def ask(self, index: int, **more: Any) -> httpx.Response:
        return await self.gateways[index].client.post(
            CHAT.path, json=CHAT.body(**more), headers=self.headers
        )

    async def until(self, *, up: bool) -> None:
        def agree() -> bool:
            return all(g.metric("gateway_limits_store_up") == up for g in self.gateways)

        await eventually(agree, within_seconds=5.0)


@asynccontextmanager
async def replicas(
    worker: FakeWorker,
    server: RedisServer,
    folder: Path,
    *,
    when_unreachable: str = "open",
    **limits: int,
) -> AsyncIterator[Replicas]:
    headers = bearer(issue_key(folder / "keys", KeyLimits(**limits)))
    sections = _settings(folder, server, when_unreachable=when_unreachable)
    async with (
        running_gateway(worker, **sections) as one,
        running_gateway(worker, **sections) as two,
    ):
        running = Replicas((one, two), headers)
        await running.until(up=True)
        yield running


async def test_replicas_share_one_limit(
    worker: FakeWorker, server: RedisServer, folder: Path
) -> None:
    async with replicas(worker, server, folder, requests_per_minute=5) as running:
        answers = [await running.ask(number % 2) for number in range(8)]

        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
        remaining = [answer.headers["x-ratelimit-remaining-requests"] for answer in answers]
        assert remaining == ["4", "3", "2", "1", "0", "0", "0", "0"]
        observed = [g.metric("gateway_limits_store_seconds_count") for g in running.gateways]
        assert observed == [4, 3]  # the last refusal was known without the store
    assert len(worker.requests) == 5


async def test_replicas_share_the_concurrency(
    worker: FakeWorker, server: RedisServer, folder: Path
) -> None:
    async with replicas(worker, server, folder, concurrent_requests=2) as running:
        waiting = [asyncio.create_task(running.ask(n, fake=_HANG)) for n in (0, 1)]
        await eventually(lambda: worker.active == 2)
        third = await running.ask(0)
        waiting[1].cancel()
        await eventually(lambda: running.gateways[1].metric("gateway_inflight_requests") == 0)
        await asyncio.sleep(1.1)  # longer than the refusal is remembered
        fourth = await running.ask(0)
        waiting[0].cancel()

    assert (third.status_code, fourth.status_code) == (429, 200)


async def test_open_gateways_count_by_themselves_while_the_store_is_away(
    worker: FakeWorker, server: RedisServer, folder: Path
) -> None:
    async with replicas(worker, server, folder, requests_per_minute=2) as running:
        before = [await running.ask(n) for n in (0, 1)]
        server.kill()
        during = [await running.ask(n) for n in (0, 1, 0, 1, 0, 1)]
        await running.until(up=False)
        server.start()
        await running.until(up=True)
        after = [await running.ask(n) for n in (0, 1, 0)]

    statuses = [[answer.status_code for answer in part] for part in (before, during, after)]
    assert statuses == [[200, 200], [200, 200, 200, 200, 429, 429], [200, 200, 429]]


async def test_closed_gateways_refuse_while_the_store_is_away(
    worker: FakeWorker, server: RedisServer, folder: Path
) -> None:
    async with replicas(
        worker, server, folder, when_unreachable="closed", requests_per_minute=9
    ) as running:
        before = await running.ask(0)
        server.kill()
        during = [await running.ask(0) for _ in range(3)]
        server.start()
        await eventually(
            lambda: running.gateways[0].metric("gateway_limits_store_up") == 1, within_seconds=5.0
        )
        after = await running.ask(0)

        assert (before.status_code, after.status_code) == (200, 200)
        assert [answer.status_code for answer in during] == [503] * 3
        assert during[0].json()["error"]["code"] == "overloaded"
        assert int(during[0].headers["retry-after"]) == 1
        rejected = running.gateways[0].metric(
            "gateway_rejections_total", reason="limits_unavailable"
        )
        assert rejected == 3


async def test_processes_of_one_gateway_share_one_limit(
    worker: FakeWorker, server: RedisServer, folder: Path
) -> None:
    headers = bearer(issue_key(folder / "keys", KeyLimits(requests_per_minute=20)))
    settings = _settings(folder, server)
    async with gateway_process(folder, worker, command=SERVE, processes=2, **settings) as gateway:
        await eventually(lambda: len(gateway.logged("limits_store_up")) == 2, within_seconds=10)

        async def ask() -> int:
            async with httpx.AsyncClient(base_url=gateway.url) as client:
                answer = await client.post(CHAT.path, json=CHAT.body(), headers=headers)
                return answer.status_code

        statuses = [await ask() for _ in range(25)]

    assert statuses == [200] * 20 + [429] * 5


async def test_running_requests_of_a_replica_that_died_are_freed(
    worker: FakeWorker, server: RedisServer, folder: Path
) -> None:
    headers = bearer(issue_key(folder / "keys", KeyLimits(concurrent_requests=1)))
    settings = _settings(folder, server, lease_seconds=1.5)
    async with (
        gateway_process(folder, worker, **settings) as victim,
        running_gateway(worker, **settings) as survivor,
    ):
        await eventually(lambda: survivor.metric("gateway_limits_store_up") == 1)
        await eventually(lambda: len(victim.logged("limits_store_up")) == 1, within_seconds=10)
        body = CHAT.body(fake=_HANG)
        running = asyncio.create_task(victim.client.post(CHAT.path, json=body, headers=headers))
        await eventually(lambda: worker.active == 1)
        victim.signal(signal.SIGKILL)
        with pytest.raises(httpx.TransportError):
            await running

        async def status() -> int:
            answer = await survivor.client.post(CHAT.path, json=CHAT.body(), headers=headers)
            return answer.status_code

        first = await status()
        await asyncio.sleep(2.6)

        assert (first, await status()) == (429, 200)


async def test_the_state_of_the_store_is_logged_when_it_changes(
    worker: FakeWorker, server: RedisServer, folder: Path
) -> None:
    headers = bearer(issue_key(folder / "keys", KeyLimits(requests_per_minute=100)))
    settings = _settings(folder, server)
    async with gateway_process(folder, worker, **settings) as gateway:
        await eventually(lambda: len(gateway.logged("limits_store_up")) == 1, within_seconds=10)
        server.kill()
        for _ in range(20):
            await gateway.client.post(CHAT.path, json=CHAT.body(), headers=headers)
        server.start()
        await eventually(lambda: len(gateway.logged("limits_store_up")) == 2, within_seconds=10)

        (down,) = gateway.logged("limits_store_down")

    assert (down["level"], down["until_it_is_up"]) == ("error", "open")
