import asyncio
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gateway.admission import KeyLimits, add_record, new_key, remove_record
from gateway.api import Services
from gateway.app import Lifecycle, Place, create_app
from gateway.errors import ConfigError
from gateway.settings import GatewaySettings
from gateway.upstream import Pool
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import running
from tests.unit.gateway.json_log import json_log

NOBODY = "http://127.0.0.1:1"
CHAT = "/v1/chat/completions"
Become = Callable[[str], None]


@asynccontextmanager
async def started(
    settings: GatewaySettings, *, place: Place | None = None, lifecycle: Lifecycle | None = None
) -> AsyncIterator[Services]:
    app = create_app(settings, place=place, lifecycle=lifecycle, registry=CollectorRegistry())
    async with app.router.lifespan_context(app) as state:
        assert state is not None
        yield state["services"]


@pytest.fixture
def become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Become:
    """Make a shell script of what the gateway starts as its worker."""

    def write(script: str) -> None:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(sys, "executable", str(path))

    return write


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(socket_dir=tmp_path, profile=tmp_path / "profile.yaml")


def supervised(tmp_path: Path, **settings: Any) -> GatewaySettings:
    log_file = tmp_path / "worker.log"
    return GatewaySettings.model_validate(
        {"supervisor": {"log_file": log_file, "check_seconds": 0.02}, **settings}
    )


async def test_remote_workers_are_named_by_host_and_port() -> None:
    settings = GatewaySettings(workers=("http://127.0.0.1:1/", "http://[::1]:2"))
    async with started(settings) as services:
        assert [worker.id for worker in services.pool.workers] == ["127.0.0.1:1", "[::1]:2"]
        assert services.supervisor is None


async def test_the_worker_of_its_own_is_started_with_profile_and_socket(
    tmp_path: Path, become: Become, place: Place
) -> None:
    become('echo "$@"; sleep 60')
    async with started(supervised(tmp_path), place=place) as services:
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


async def test_other_processes_use_the_worker_and_do_not_start_it(
    tmp_path: Path, become: Become
) -> None:
    become("touch started")
    async with started(supervised(tmp_path), place=Place(1, None, tmp_path)) as services:
        assert services.supervisor is None
        assert [worker.id for worker in services.pool.workers] == ["local"]


async def test_the_worker_stays_until_the_other_processes_are_gone(
    tmp_path: Path, become: Become, place: Place
) -> None:
    become("sleep 60")
    gone = asyncio.Event()

    async def others_gone() -> None:
        await gone.wait()

    async def run() -> None:
        lifecycle = Lifecycle(others_gone=others_gone)
        async with started(supervised(tmp_path), place=place, lifecycle=lifecycle) as services:
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
    tmp_path: Path, become: Become, place: Place
) -> None:
    become("echo engine.model: is missing; exit 2")
    stopped = asyncio.Event()
    lifecycle = Lifecycle(stop=stopped.set)
    async with started(supervised(tmp_path), place=place, lifecycle=lifecycle):
        await asyncio.wait_for(stopped.wait(), 3)

    assert lifecycle.failed == "engine.model: is missing"


async def test_without_workers_and_without_a_place_for_one_there_is_no_gateway() -> None:
    with pytest.raises(ConfigError, match=r"gateway\.workers is empty"):
        async with started(GatewaySettings()):
            pass


def write_oops(path: Path) -> None:
    path.write_text("oops\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("section", "field", "make", "words"),
    [
        ("keys", "file", write_oops, "line 1 is not a key record"),
        ("keys", "file", Path.mkdir, "Is a directory"),
        ("upstream", "api_key_file", Path.touch, "is empty"),
        ("upstream", "api_key_file", Path.mkdir, "Is a directory"),
    ],
    ids=["damaged-keys", "keys-folder", "empty-secret", "secret-folder"],
)
def test_a_file_that_is_not_what_it_should_be_is_found_before_the_start(
    tmp_path: Path, section: str, field: str, make: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / "file"
    make(path)
    settings = GatewaySettings.model_validate({"workers": [NOBODY], section: {field: path}})

    with pytest.raises(ConfigError, match=words):
        create_app(settings, registry=CollectorRegistry())


async def test_a_background_task_that_fails_ends_the_gateway() -> None:
    async def announce(pool: Pool) -> None:
        raise ZeroDivisionError

    stopped = asyncio.Event()
    lifecycle = Lifecycle(stop=stopped.set, announce=announce)
    with json_log() as log:
        async with started(GatewaySettings(workers=(NOBODY,)), lifecycle=lifecycle):
            await asyncio.wait_for(stopped.wait(), 1)

    assert lifecycle.failed == "announce: ZeroDivisionError()"
    assert log.of("background_task_failed")[0]["task"] == "announce"


async def test_nothing_is_left_running_at_the_end() -> None:
    before = asyncio.all_tasks()
    async with started(GatewaySettings(workers=(NOBODY,))):
        assert len(asyncio.all_tasks()) > len(before)

    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    ("processes", "share"), [(1, 10), (3, 4), (10, 1), (64, 1)], ids=["one", "three", "ten", "64"]
)
async def test_places_are_shared_by_processes(processes: int, share: int) -> None:
    admission = {"max_running_requests": 10, "max_queued_requests": 0}
    settings = GatewaySettings.model_validate(
        {"workers": [NOBODY], "processes": processes, "admission": admission}
    )
    async with started(settings) as services:
        taken = 0
        while taken < share:
            await services.gate.places.take("t")
            taken += 1

        assert services.gate.places.running == share
        refused = asyncio.create_task(services.gate.places.take("t"))
        await asyncio.wait({refused})
        assert type(refused.exception()).__name__ == "QueueFullError"


async def test_keys_are_followed_without_restart(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    text, record = new_key(tenant="acme", name="", created="", limits=KeyLimits())
    keys = {"file": path, "reload_seconds": 0.02}
    async with FakeWorker() as worker, running(worker.url, keys=keys) as gateway:

        async def status() -> int:
            headers = {"authorization": f"Bearer {text}"}
            answer = await gateway.client.post(CHAT, json={"messages": []}, headers=headers)
            return answer.status_code

        before = await status()
        add_record(path, record)
        await asyncio.sleep(0.1)
        added = await status()
        remove_record(path, record.key_id)
        await asyncio.sleep(0.1)

        assert (before, added, await status()) == (401, 200, 401)


@pytest.mark.parametrize("damage", [b"{oops", b"\xff\xfe"], ids=repr)
async def test_a_damaged_key_file_is_told_once_and_locks_nobody_out(
    tmp_path: Path, damage: bytes
) -> None:
    path = tmp_path / "keys"
    text, record = new_key(tenant="acme", name="", created="", limits=KeyLimits())
    path.write_text(dumps(asdict(record)), encoding="utf-8")
    keys = {"file": path, "reload_seconds": 0.02}
    with json_log() as log:
        async with FakeWorker() as worker, running(worker.url, keys=keys) as gateway:
            path.write_bytes(damage)
            await asyncio.sleep(0.15)
            headers = {"authorization": f"Bearer {text}"}
            answer = await gateway.client.post(CHAT, json={"messages": []}, headers=headers)

    assert answer.status_code == 200
    assert gateway.lifecycle.failed is None
    (line,) = log.of("keys_unreadable")
    assert line["level"] == "error"


async def test_the_workers_key_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("worker-key\n", encoding="utf-8")
    upstream = {"api_key_file": path}
    async with FakeWorker() as worker, running(worker.url, upstream=upstream) as gateway:
        await gateway.client.post(CHAT, json={"messages": []})

        assert worker.requests[0].headers["authorization"] == "Bearer worker-key"


async def test_more_paths_of_the_worker_are_forwarded_as_they_are() -> None:
    async with FakeWorker() as worker, running(worker.url) as gateway:
        answer = await gateway.client.post("/v1/score", content=b'{"x": 1.0}')
        unknown = await gateway.client.post("/v1/unheard-of", content=b"{}")

    assert (answer.status_code, unknown.status_code) == (404, 404)
    assert answer.json()["error"]["message"] != unknown.json()["error"]["message"]


async def test_the_gateways_own_pages_are_no_documentation() -> None:
    async with running(NOBODY, ready=False) as gateway:
        statuses = [
            (await gateway.client.get(path)).status_code
            for path in ("/docs", "/redoc", "/openapi.json")
        ]

    assert statuses == [404, 404, 404]
