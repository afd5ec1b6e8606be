import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.api import Services
from gateway.assembly import Lifecycle, ProcessContext
from gateway.settings import GatewaySettings
from tests.integration.waiting import eventually
from tests.unit.gateway.application import started
from tests.unit.gateway.cli.stand_in import Become, interpreter


@pytest.fixture
def become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Become:
    """Make a shell script of what the gateway starts as its worker."""
    return interpreter(tmp_path, monkeypatch)


@pytest.fixture
def process(tmp_path: Path) -> ProcessContext:
    return ProcessContext(socket_dir=tmp_path, profile=tmp_path / "profile.yaml")


def supervised(tmp_path: Path, **settings: Any) -> GatewaySettings:
    log_file, secret_file = tmp_path / "worker.log", tmp_path / "secret"
    secret_file.write_text("secret", encoding="utf-8")
    return GatewaySettings.model_validate(
        {
            "supervisor": {"log_file": log_file, "check_seconds": 0.02},
            "tenant_secret_file": secret_file,
            **settings,
        }
    )


async def test_the_own_worker_is_started_with_profile_and_socket(
    tmp_path: Path, become: Become, process: ProcessContext
) -> None:
    become('echo "$@"; sleep 60')
    async with started(supervised(tmp_path), process=process) as services:
        log = tmp_path / "worker.log"
        await eventually(lambda: log.exists() and bool(log.read_text(encoding="utf-8")))

        assert log.read_text(encoding="utf-8").split() == [
            "-m",
            "engine",
            "--config",
            str(tmp_path / "profile.yaml"),
            "--uds",
            str(tmp_path / "worker.sock"),
            "--die-with-parent",
        ]
        assert [worker.id for worker in services.pool.workers] == ["local"]
        assert services.supervisor is not None
        assert services.supervisor.pid is not None
    assert services.supervisor.state == "stopped"


async def test_other_processes_use_the_worker_without_starting_it(
    tmp_path: Path, become: Become
) -> None:
    become("touch started")
    async with started(supervised(tmp_path), process=ProcessContext(1, None, tmp_path)) as services:
        assert services.supervisor is None
        assert [worker.id for worker in services.pool.workers] == ["local"]


async def test_the_worker_is_stopped_after_the_other_processes(
    tmp_path: Path, become: Become, process: ProcessContext
) -> None:
    become("sleep 60")
    gone = asyncio.Event()

    async def others_gone() -> None:
        await gone.wait()

    async def run() -> None:
        lifecycle = Lifecycle(others_gone=others_gone)
        async with started(supervised(tmp_path), process=process, lifecycle=lifecycle) as services:
            found.append(services)

    found: list[Services] = []
    task = asyncio.create_task(run())
    await eventually(lambda: bool(found))
    supervisor = found[0].supervisor
    assert supervisor is not None
    states = []
    await asyncio.sleep(0.05)
    states.append(supervisor.state)

    gone.set()
    await task

    assert [*states, supervisor.state] == ["starting", "stopped"]


async def test_a_worker_that_refuses_its_settings_ends_the_gateway(
    tmp_path: Path, become: Become, process: ProcessContext
) -> None:
    become("echo engine.model: is missing; exit 2")
    stopped = asyncio.Event()
    lifecycle = Lifecycle(stop=stopped.set)
    async with started(supervised(tmp_path), process=process, lifecycle=lifecycle):
        await asyncio.wait_for(stopped.wait(), 3)

    assert lifecycle.failed == "engine.model: is missing"
