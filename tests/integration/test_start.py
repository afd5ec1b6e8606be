"""What is wrong with the settings is said in one line, with exit status 2, however it starts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.process import ALONE, SERVE, gateway_process
from tests.integration.waiting import eventually

_WAYS: dict[str, tuple[Sequence[str], int]] = {
    "alone": (ALONE, 1),
    "serve": (SERVE, 1),
    "serve_with_two_processes": (SERVE, 2),
}
_WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown_name": ({"prot": 1}, "gateway.prot: "),
    "no_keys": ({"host": "0.0.0.0"}, "there are no keys"),
    "no_url": (
        {"workers": ["worker:8000"]},
        "workers: worker:8000 is no http://, https:// or dns+http:// URL",
    ),
    "no_such_secret": ({"upstream": {"api_key_file": "missing"}}, "missing: No such file"),
    "no_key_record": ({"keys": {"file": "profile.yaml"}}, "profile.yaml: line 1 is not a key"),
}
each_way = pytest.mark.parametrize(("command", "processes"), _WAYS.values(), ids=_WAYS)


@each_way
@pytest.mark.parametrize(("settings", "message"), _WRONG.values(), ids=_WRONG)
async def test_wrong_setting_is_explained(
    worker: FakeWorker,
    folder: Path,
    command: Sequence[str],
    processes: int,
    settings: dict[str, Any],
    message: str,
) -> None:
    async with gateway_process(
        folder, worker, command=command, processes=processes, wait_ready=False, **settings
    ) as gateway:
        assert await gateway.ended() == 2

    assert message in gateway.lines[-1]
    assert "Traceback" not in "".join(gateway.lines)


@each_way
async def test_taken_port_is_explained(
    worker: FakeWorker, folder: Path, command: Sequence[str], processes: int
) -> None:
    async with gateway_process(
        folder,
        worker,
        command=command,
        processes=processes,
        wait_ready=False,
        port=worker.port,
    ) as gateway:
        assert await gateway.ended() == 2

    assert gateway.lines == [f"gateway.port {worker.port}: Address already in use"]


async def test_unknown_variable_is_explained(worker: FakeWorker, folder: Path) -> None:
    environment = {"SPECGATE_GATEWAY__PROT": "1"}
    async with gateway_process(
        folder, worker, wait_ready=False, environment=environment
    ) as gateway:
        assert await gateway.ended() == 2

    assert gateway.lines == ["unknown environment variable SPECGATE_GATEWAY__PROT"]


async def test_ready_gateway_shows_a_request_to_paste(worker: FakeWorker, folder: Path) -> None:
    async with gateway_process(folder, worker, command=SERVE) as gateway:
        await eventually(lambda: any("curl" in line for line in gateway.lines))

        text = "\n".join(gateway.lines)
        assert f"on {gateway.url}/v1" in text
        assert f"curl -N {gateway.url}/v1/chat/completions" in text
        assert '"model": "fake-model"' in text
