"""Against a real redis-server."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.admission import store as store_module
from gateway.admission.store import Store
from tests.integration.redis_server import RedisServer, running_redis
from tests.integration.waiting import eventually

INCREMENT = "return redis.call('INCRBY', KEYS[1], ARGV[1])"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="sg-") as folder, running_redis(Path(folder)) as server:
        yield server


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_PROBE_SECONDS", 0.1)


class Running:
    """A store that runs, and the changes of its state."""

    def __init__(self, url: str, **options: Any) -> None:
        self.changes: list[tuple[bool, str]] = []
        chosen = {"password": None, "timeout_seconds": 1.0, **options}
        self.store = Store(
            url, on_change=lambda up, reason: self.changes.append((up, reason)), **chosen
        )

    async def add(self, count: int) -> Any:
        return await self.store.call(INCREMENT, ["sum"], [count])


@asynccontextmanager
async def running_store(url: str, **options: Any) -> AsyncIterator[Running]:
    running = Running(url, **options)
    task = asyncio.create_task(running.store.run())
    try:
        yield running
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


async def test_calls_run_in_order_and_get_their_own_replies(server: RedisServer) -> None:
    async with running_store(server.url) as running:
        await eventually(lambda: running.store.is_up)

        replies = await asyncio.gather(*(running.add(1) for _ in range(1000)))

    assert replies == list(range(1, 1001))
    assert running.changes == [(True, "")]


async def test_before_the_first_probe_the_store_counts_as_down(server: RedisServer) -> None:
    async with running_store(server.url) as running:
        assert await running.add(1) is None


async def test_what_was_posted_is_sent_at_the_end(server: RedisServer) -> None:
    async with running_store(server.url) as running:
        await eventually(lambda: running.store.is_up)
        for _ in range(600):
            running.store.post(INCREMENT, ["sum"], [1])

    assert server.ask("GET", "sum") == b"$3\r\n600\r\n"


async def test_a_killed_store_is_down_until_it_is_back(server: RedisServer) -> None:
    async with running_store(server.url) as running:
        await eventually(lambda: running.store.is_up)
        server.kill()
        lost = await asyncio.gather(*(running.add(1) for _ in range(300)))
        running.store.post(INCREMENT, ["sum"], [7])
        await asyncio.sleep(0.3)
        before = len(running.changes)
        server.start()
        await eventually(lambda: running.store.is_up)

        assert lost == [None] * 300
        assert before == 2  # up and down: one change, however many calls failed
        assert await running.add(1) == 8
    assert [up for up, _ in running.changes] == [True, False, True]
    assert running.changes[1][1]


async def test_a_store_that_is_away_at_the_start_is_reported_once(server: RedisServer) -> None:
    server.kill()
    async with running_store(server.url) as running:
        await eventually(lambda: bool(running.changes))
        await asyncio.sleep(0.3)

        assert [up for up, _ in running.changes] == [False]


async def test_a_store_that_hangs_costs_its_timeout_once(server: RedisServer) -> None:
    async with running_store(server.url, timeout_seconds=0.05) as running:
        await eventually(lambda: running.store.is_up)
        server.suspend()

        assert await running.add(1) is None
        assert not running.store.is_up
        async with asyncio.timeout(0):  # without any wait
            for _ in range(100):
                assert await running.add(1) is None

        server.resume()
        await eventually(lambda: running.store.is_up)
        assert await running.add(1) is not None


async def test_a_store_that_only_reads_is_down(server: RedisServer) -> None:
    async with running_store(server.url) as running:
        await eventually(lambda: running.store.is_up)
        server.ask("REPLICAOF", "127.0.0.1", "1")  # as after a failover

        assert await running.add(1) is None
        await asyncio.sleep(0.3)
        assert not running.store.is_up
        server.ask("REPLICAOF", "NO", "ONE")
        await eventually(lambda: running.store.is_up)


async def test_a_cancelled_call_disturbs_no_other(server: RedisServer) -> None:
    async with running_store(server.url) as running:
        await eventually(lambda: running.store.is_up)
        first = asyncio.create_task(running.add(1))
        second = asyncio.create_task(running.add(10))
        await asyncio.sleep(0)
        first.cancel()

        assert await second == 11


async def test_the_end_answers_the_calls_that_wait(server: RedisServer) -> None:
    async with running_store(server.url, timeout_seconds=0.1) as running:
        await eventually(lambda: running.store.is_up)
        server.suspend()
        waiting = [asyncio.create_task(running.add(1)) for _ in range(300)]
        await asyncio.sleep(0)

    assert [await task for task in waiting] == [None] * 300


async def test_the_password_is_used() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="sg-") as folder,
        running_redis(Path(folder), "--requirepass", "secret") as server,
    ):
        async with (
            running_store(server.url, password="secret") as right,
            running_store(server.url) as wrong,
        ):
            await eventually(lambda: right.store.is_up and bool(wrong.changes))

            assert await right.add(1) == 1
            assert not wrong.store.is_up
