"""Ctrl-C at a terminal: it says what it waits for, and a second one ends it at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.process import AT_A_TERMINAL, GatewayProcess, gateway_process
from tests.integration.waiting import eventually

_ENDLESS = {"chunks": 100_000, "gap_seconds": 0.02}

each_count_of_processes = pytest.mark.parametrize("processes", [1, 2])


@asynccontextmanager
async def _streaming(
    folder: Path, worker: FakeWorker, **settings: Any
) -> AsyncIterator[tuple[GatewayProcess, "asyncio.Task[None]"]]:
    """A gateway at a terminal with one open stream."""
    processes = settings["processes"]
    async with gateway_process(folder, worker, command=AT_A_TERMINAL, **settings) as gateway:
        # One process may be ready while another still starts, and Ctrl-C would end that silently.
        # The line may follow the spinner's.
        await eventually(
            lambda: sum('"worker_up"' in line for line in gateway.lines) == processes,
            within_seconds=20.0,
        )
        pieces: list[str] = []
        reading = asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": _ENDLESS}, pieces))
        await eventually(lambda: bool(pieces), within_seconds=10.0)
        yield gateway, reading


def _imports(process: psutil.Process) -> bool:
    """Whether a process imports our packages, and so has Python's own handler of SIGINT."""
    return any("pydantic_core" in mapped.path for mapped in process.memory_maps())


@each_count_of_processes
async def test_ctrl_c_says_what_it_waits_for_and_a_second_one_ends_it(
    worker: FakeWorker, folder: Path, processes: int
) -> None:
    settings = {"processes": processes, "drain": {"accept_seconds": 60.0}}
    async with _streaming(folder, worker, **settings) as (gateway, reading):
        gateway.press_ctrl_c()
        await eventually(lambda: gateway.said("waiting for 1 running request, at most 10 s;"))
        await eventually(lambda: len(gateway.logged("draining")) == processes)
        assert not reading.done()

        gateway.press_ctrl_c()
        with pytest.raises(CHAT.error, match="shutting down"):
            await reading

        assert await gateway.ended() == 0
        assert gateway.said("specgate: ending at once")
        assert gateway.lines[-1].endswith("specgate: stopped")


@each_count_of_processes
async def test_a_time_that_is_set_applies_at_a_terminal_too(
    worker: FakeWorker, folder: Path, processes: int
) -> None:
    settings = {"processes": processes, "drain": {"finish_seconds": 0.3}}
    async with _streaming(folder, worker, **settings) as (gateway, reading):
        gateway.press_ctrl_c()
        with pytest.raises(CHAT.error, match="shutting down"):
            await reading

        assert await gateway.ended() == 0
        assert gateway.said("waiting for 1 running request, at most 0.3 s;")


@each_count_of_processes
async def test_ctrl_c_without_requests_ends_at_once(
    worker: FakeWorker, folder: Path, processes: int
) -> None:
    settings: dict[str, Any] = {"processes": processes, "drain": {"accept_seconds": 60.0}}
    async with gateway_process(folder, worker, command=AT_A_TERMINAL, **settings) as gateway:
        await eventually(lambda: gateway.said("ready after"), within_seconds=10.0)

        gateway.press_ctrl_c()

        assert await gateway.ended() == 0
        assert gateway.said("specgate: stopping")
        assert not gateway.said("waiting for 0")


@each_count_of_processes
async def test_ctrl_c_says_that_the_worker_is_being_stopped(folder: Path, processes: int) -> None:
    cache = {"XDG_CACHE_HOME": str(folder)}
    async with gateway_process(
        folder, command=AT_A_TERMINAL, environment=cache, processes=processes, drain={}
    ) as gateway:
        await eventually(lambda: gateway.said("ready after"), within_seconds=10.0)

        gateway.press_ctrl_c()

        assert await gateway.ended() == 0
        assert len(gateway.logged("worker_stopping")) == 1
        assert gateway.lines[-1].endswith("specgate: stopped")


async def test_ctrl_c_while_processes_start_shows_no_traceback(
    worker: FakeWorker, folder: Path
) -> None:
    async with gateway_process(
        folder, worker, command=AT_A_TERMINAL, wait_ready=False, processes=2
    ) as gateway:
        parent = psutil.Process(gateway.process.pid)
        await eventually(
            lambda: [_imports(child) for child in parent.children()] == [True, True],
            within_seconds=10.0,
        )

        gateway.press_ctrl_c()

        assert await gateway.ended() == 0
        assert not gateway.said("Traceback")
