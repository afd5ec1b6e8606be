import asyncio
import os
import signal
from pathlib import Path

import pytest

from gateway.supervisor.process import WorkerCommand, WorkerProcess
from tests.integration.waiting import eventually


def shell(script: str, log_path: Path | None = None) -> WorkerCommand:
    return WorkerCommand(("sh", "-c", script), log_path)


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def test_it_runs_until_it_ends() -> None:
    process = await WorkerProcess.start(shell("exit 3"))

    assert await process.wait() == 3
    assert process.exit_status == 3


async def test_it_leads_its_own_session() -> None:
    process = await WorkerProcess.start(shell("sleep 60"))

    assert process.exit_status is None
    assert os.getsid(process.pid) == process.pid
    await process.stop(grace_seconds=1)


async def test_it_gets_sigterm_first(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "w.log"
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    process = await WorkerProcess.start(shell(script, log))
    await eventually(lambda: process.last_lines(1) == ["ready"])

    await process.stop(grace_seconds=5)

    assert process.exit_status == 0
    assert process.last_lines(1) == ["bye"]


async def test_it_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.01; done"
    process = await WorkerProcess.start(shell(script, tmp_path / "w.log"))
    await eventually(lambda: process.last_lines(1) == ["ready"])

    await process.stop(grace_seconds=0.1)

    assert process.exit_status == -signal.SIGKILL


async def test_its_children_are_killed_even_if_it_died_first(tmp_path: Path) -> None:
    script = "sleep 60 & echo $!; exit 1"
    process = await WorkerProcess.start(shell(script, tmp_path / "w.log"))
    await process.wait()
    child = int(process.last_lines(1)[0])
    assert is_alive(child)

    await process.stop(grace_seconds=1)

    await eventually(lambda: not is_alive(child))


async def test_stopping_twice_is_allowed() -> None:
    process = await WorkerProcess.start(shell("exit 0"))

    await process.stop(grace_seconds=1)
    await process.stop(grace_seconds=1)

    assert process.exit_status is not None


async def test_a_cancelled_stop_kills_at_once(tmp_path: Path) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.01; done"
    process = await WorkerProcess.start(shell(script, tmp_path / "w.log"))
    await eventually(lambda: process.last_lines(1) == ["ready"])
    stopping = asyncio.create_task(process.stop(grace_seconds=60))
    await asyncio.sleep(0.05)

    stopping.cancel()
    await asyncio.wait({stopping})

    assert process.exit_status == -signal.SIGKILL


async def test_the_last_lines_of_a_long_log_are_read(tmp_path: Path) -> None:
    process = await WorkerProcess.start(shell("seq 20000", tmp_path / "w.log"))
    await process.wait()

    assert process.last_lines(3) == ["19998", "19999", "20000"]


async def test_a_binary_log_is_decoded_with_replacements(tmp_path: Path) -> None:
    process = await WorkerProcess.start(shell(r"printf 'a\377b\n'", tmp_path / "w.log"))
    await process.wait()

    assert process.last_lines(1) == ["a\ufffdb"]


async def test_without_a_log_file_there_are_no_lines(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    own, removed = await WorkerProcess.start(shell(":")), await WorkerProcess.start(shell(":", log))
    for process in (own, removed):
        await process.wait()
    log.unlink()

    assert own.last_lines(5) == []
    assert removed.last_lines(5) == []


async def test_a_missing_program_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        await WorkerProcess.start(WorkerCommand(("/nowhere/at-all",), None))
