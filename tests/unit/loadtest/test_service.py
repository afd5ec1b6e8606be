from pathlib import Path

import pytest

from loadtest.processes import ChildProcess, Command
from loadtest.service import RunningGateway, ServiceError
from tests.fakes.worker import FakeWorker
from tests.integration.running import running_gateway

_LOG = """{"event": "worker_ready", "start_seconds": 15.5}
vLLM says something
{"event": "request", "request_id": "a", "attempts": 2}
{"event": "request", "request_id": "b", "attempts": 0}
{"event": "worker_ready", "start_seconds": 17}
{"event": "request", "reque"""


def gateway_at(port: int, folder: Path) -> RunningGateway:
    command = Command("gateway", ["true"], "", 1.0, {})
    return RunningGateway(port, ChildProcess(command, log=folder / "x"), folder / "gateway.log")


def test_starts_and_tries_are_read_from_the_log(tmp_path: Path) -> None:
    gateway = gateway_at(1, tmp_path)
    gateway.log.write_text(_LOG, encoding="utf-8")

    assert gateway.start_seconds() == [15.5, 17.0]
    assert gateway.tries() == {"a": 2, "b": 0}


async def test_remote_workers_have_a_state_but_no_processes(tmp_path: Path) -> None:
    async with FakeWorker() as worker, running_gateway(worker) as running:
        gateway = gateway_at(running.port, tmp_path)

        (state,) = await gateway.workers()

        assert (state.up, state.pid, state.restarts) == (True, None, 0)
        with pytest.raises(ServiceError, match="does not run"):
            await gateway.processes()


async def test_a_stopped_gateway_reports_nothing(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="/health/workers"):
        await gateway_at(9, tmp_path).workers()
