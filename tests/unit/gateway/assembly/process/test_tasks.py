import asyncio

from gateway.assembly import Lifecycle
from gateway.settings import GatewaySettings
from gateway.upstream import Pool
from tests.unit.gateway.application import started
from tests.unit.gateway.json_log import json_log

UNREACHABLE = "http://127.0.0.1:1"


async def test_a_background_task_that_fails_ends_the_gateway() -> None:
    async def announce(pool: Pool) -> None:
        raise ZeroDivisionError

    stopped = asyncio.Event()
    lifecycle = Lifecycle(stop=stopped.set, announce=announce)
    with json_log() as log:
        async with started(GatewaySettings(workers=(UNREACHABLE,)), lifecycle=lifecycle):
            await asyncio.wait_for(stopped.wait(), 1)

    assert lifecycle.failed == "announce: ZeroDivisionError()"
    assert log.of("background_task_failed")[0]["task"] == "announce"


async def test_tasks_are_cancelled_at_the_end() -> None:
    before = asyncio.all_tasks()
    async with started(GatewaySettings(workers=(UNREACHABLE,))):
        assert len(asyncio.all_tasks()) > len(before)

    assert asyncio.all_tasks() == before
