"""`specgate top` at a terminal: it survives a restart of the gateway, and ends on Ctrl-C."""

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.process import SERVE
from tests.integration.running import running_gateway
from tests.integration.waiting import eventually

_TOP = ("setsid", "--ctty", SERVE[0], "top")
_STYLES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Terminal:
    """A command at a terminal of 24 lines of 80 columns.

    Attributes:
        process: The command.
        keys: Where to type.
        output: What it has written so far.
    """

    process: subprocess.Popen[bytes]
    keys: int
    output: bytearray = field(default_factory=bytearray)

    async def status(self) -> int:
        """Its exit status, once it has ended."""
        return await asyncio.to_thread(self.process.wait, 20.0)

    def shows(self, words: str) -> bool:
        """Whether the words were shown, in any style."""
        return words in _STYLES.sub(b"", bytes(self.output)).decode(errors="replace")


@asynccontextmanager
async def top(*options: str, **environment: str) -> AsyncIterator[Terminal]:
    ours, theirs = os.openpty()
    variables = {**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm-256color"}
    variables.pop("NO_COLOR", None)
    # Unlike uvloop's, this leaves the listening socket of the gateway to the gateway.
    process = subprocess.Popen(  # noqa: ASYNC220  # starting it takes no time
        [*_TOP, *options],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**variables, "PYTHONPATH": str(_ROOT), **environment},
    )
    os.close(theirs)
    terminal = Terminal(process, ours)
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the command has ended
            data = b""
        terminal.output.extend(data)
        if not data:
            loop.remove_reader(ours)

    loop.add_reader(ours, read)
    try:
        yield terminal
    finally:
        loop.remove_reader(ours)
        process.kill()
        await asyncio.to_thread(process.wait)
        os.close(ours)


async def test_it_survives_a_restart_of_the_gateway_and_ends_on_ctrl_c(worker: FakeWorker) -> None:
    async with AsyncExitStack() as stack:
        async with running_gateway(worker, live={"sample_seconds": 0.5}) as gateway:
            terminal = await stack.enter_async_context(top("--url", gateway.url))
            await eventually(lambda: terminal.shows("Drafts: 60 %"), within_seconds=20.0)
        await eventually(lambda: terminal.shows("trying again"), within_seconds=20.0)
        terminal.output.clear()
        async with running_gateway(worker, port=gateway.port):
            await eventually(
                lambda: terminal.shows("tokens/s") and not terminal.shows("trying again"),
                within_seconds=20.0,
            )
        os.write(terminal.keys, b"\x03")
        assert await terminal.status() == 130
        assert not terminal.shows("Traceback")


@pytest.mark.parametrize("no_color", ["", "1"])
async def test_colours_are_left_out_if_asked(worker: FakeWorker, no_color: str) -> None:
    async with (
        running_gateway(worker) as gateway,
        top("--once", "--url", gateway.url, NO_COLOR=no_color) as terminal,
    ):
        assert await terminal.status() == 0
        await eventually(lambda: terminal.shows("tokens/s"))

        colours = re.findall(rb"\x1b\[[0-9;]*3[0-9][0-9;]*m", bytes(terminal.output))
        assert bool(colours) == (no_color == "")


async def test_in_a_pipe_it_prints_one_frame(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        process = await asyncio.create_subprocess_exec(
            *(SERVE[0], "top", "--url", gateway.url),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONIOENCODING": "ascii"},
        )
        async with asyncio.timeout(20.0):
            out, _ = await process.communicate()

    assert process.returncode == 0
    assert out.startswith(b"specgate ")
    assert b"\x1b" not in out
    assert out.isascii()
