import asyncio
from dataclasses import asdict
from json import dumps
from pathlib import Path

import pytest

from gateway.admission import KeyLimits, add_record, new_key, remove_record
from gateway.settings import GatewaySettings
from tests.fakes.worker import FakeWorker
from tests.unit.gateway.application import running, started
from tests.unit.gateway.json_log import json_log

UNREACHABLE = "http://127.0.0.1:1"
CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("processes", "share"), [(1, 10), (3, 4), (10, 1), (64, 1)], ids=["one", "three", "ten", "64"]
)
async def test_slots_are_divided_among_processes(processes: int, share: int) -> None:
    admission = {"max_running_requests": 10, "max_queued_requests": 0}
    settings = GatewaySettings.model_validate(
        {"workers": [UNREACHABLE], "processes": processes, "admission": admission}
    )
    async with started(settings) as services:
        taken = 0
        while taken < share:
            await services.admission.slots.take("t")
            taken += 1

        assert services.admission.slots.running == share
        refused = asyncio.create_task(services.admission.slots.take("t"))
        await asyncio.wait({refused})
        assert type(refused.exception()).__name__ == "QueueFullError"


async def test_a_changed_key_file_is_read_without_restart(tmp_path: Path) -> None:
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
async def test_a_damaged_key_file_is_logged_once_and_locks_nobody_out(
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


async def test_the_store_is_down_until_it_answers_and_a_missing_one_is_no_alarm(
    tmp_path: Path,
) -> None:
    ups = []
    for limits in ({}, {"store": f"unix://{tmp_path}/none"}):
        async with running(UNREACHABLE, ready=False, limits=limits) as gateway:
            ups.append(gateway.registry.get_sample_value("gateway_limits_store_up"))

    assert ups == [1, 0]
