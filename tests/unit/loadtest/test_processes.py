import sys
from pathlib import Path

import pytest

from bench.gateway.targets import fake_worker_command
from loadtest.processes import (
    ChildProcess,
    Command,
    RunError,
    StartError,
    free_port,
    run_to_end,
)


async def run(code: str, *, seconds: float = 30.0) -> bytes:
    return await run_to_end(sys.executable, "-c", code, seconds=seconds)


async def test_what_a_command_writes_is_returned_without_its_complaints() -> None:
    assert await run("import sys; print('found'); print('oh', file=sys.stderr)") == b"found\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_command_that_fails_says_why(stream: str) -> None:
    with pytest.raises(RunError, match="no luck"):
        await run(f"import sys; print('no luck', file=sys.{stream}); sys.exit(3)")


async def test_a_command_that_takes_too_long_is_ended() -> None:
    with pytest.raises(RunError, match="not done in 0 s"):
        await run("import time; time.sleep(600)", seconds=0.2)


async def test_a_child_that_was_stopped_can_be_started_again(tmp_path: Path) -> None:
    child = ChildProcess(fake_worker_command(free_port()), log=tmp_path / "log")

    await child.start()
    first = child.pid
    status = await child.stop()
    await child.start()
    second = child.pid
    await child.stop()

    assert status == 0
    assert first != second
    assert (tmp_path / "log").read_text(encoding="utf-8").count("ready") == 2
    assert await child.stop() is None


async def test_a_child_that_is_deaf_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    deaf = Command(
        "deaf", ["sh", "-c", "trap '' TERM; sleep 60"], "http://127.0.0.1:9", 0.3, {}, 0.1
    )

    with pytest.raises(StartError, match="not ready in 0 s"):
        await ChildProcess(deaf, log=tmp_path / "log").start()
