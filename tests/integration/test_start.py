"""A gateway that cannot start explains why in one line and exits with status 2."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.process import ALONE, SERVE, gateway_process

_COMMANDS: dict[str, tuple[Sequence[str], int]] = {
    "alone": (ALONE, 1),
    "serve": (SERVE, 1),
    "serve_with_two_processes": (SERVE, 2),
}


@pytest.mark.parametrize(("command", "processes"), _COMMANDS.values(), ids=_COMMANDS)
async def test_wrong_setting_is_explained(
    worker: FakeWorker,
    folder: Path,
    command: Sequence[str],
    processes: int,
) -> None:
    async with gateway_process(
        folder, worker, command=command, processes=processes, wait_ready=False, prot=1
    ) as gateway:
        assert await gateway.ended() == 2

    assert "gateway.prot: " in gateway.lines[-1]
    assert "Traceback" not in "".join(gateway.lines)


async def test_taken_port_is_explained(worker: FakeWorker, folder: Path) -> None:
    async with gateway_process(
        folder,
        worker,
        command=SERVE,
        processes=2,
        wait_ready=False,
        port=worker.port,
    ) as gateway:
        assert await gateway.ended() == 2

    assert gateway.lines == [f"gateway.port {worker.port}: Address already in use"]
