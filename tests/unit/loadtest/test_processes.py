import sys

import pytest

from loadtest.processes import RunError, run_to_end


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
