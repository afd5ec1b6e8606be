"""The gateway under test: a process of its own, its log and its blocked moments."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from loadtest.processes import ChildProcess, Command, free_port, start_child

_NAME = "gateway"
_CRASHES = ("request_crashed", "Traceback", "Exception in callback", "never retrieved")
"""What the log holds when our code failed."""
_BEGIN_CHARACTERS, _END_CHARACTERS = 150, 1_200
"""Of a line that are kept: which request it was, and the innermost calls of the traceback."""


class Block(NamedTuple):
    """One time that the gateway's loop was blocked.

    Attributes:
        at_seconds: CLOCK_MONOTONIC when it ended.
    """

    at_seconds: float
    milliseconds: float


@dataclass(slots=True)
class Subject:
    """A running gateway.

    Attributes:
        port: On 127.0.0.1.
        process: Its process.
    """

    port: int
    process: ChildProcess
    _log: Path
    _blocks: Path
    _log_read: int = 0
    _blocks_read: int = 0

    def new_crashes(self) -> list[str]:
        """The lines of its log since the last look that show a failure of our code."""
        with self._log.open("rb") as log:
            log.seek(self._log_read)
            text = log.read()
        self._log_read += len(text)
        lines = text.decode(errors="replace").splitlines()
        return [_shortened(line) for line in lines if any(mark in line for mark in _CRASHES)]

    def new_blocks(self) -> list[Block]:
        """The blocked moments since the last look."""
        lines = self._blocks.read_text(encoding="utf-8").splitlines()
        new, self._blocks_read = lines[self._blocks_read :], len(lines)
        return [Block(*map(float, line.split())) for line in new]


def _shortened(line: str) -> str:
    if len(line) <= _BEGIN_CHARACTERS + _END_CHARACTERS:
        return line
    return f"{line[:_BEGIN_CHARACTERS]} ... {line[-_END_CHARACTERS:]}"


@asynccontextmanager
async def running_subject(
    folder: Path, workers: list[str], settings: Mapping[str, Any]
) -> AsyncIterator[Subject]:
    """Start a gateway in front of `workers`; it is stopped in any case.

    Args:
        folder: An empty folder for its files.
        workers: URLs.
        settings: The profile's `gateway:` section, without port and workers.

    Raises:
        StartError: It did not become ready.
    """
    port = free_port()
    profile, blocks = folder / "profile.yaml", folder / "blocks"
    quiet = {
        "log": {"format": "json", "level": "warning"},
        "drain": {"accept_seconds": 0.0, "finish_seconds": 1.0},
        "responses": {"path": str((folder / "responses.sqlite").resolve())},
    }
    section = {**quiet, **settings, "port": port, "workers": workers}
    profile.write_text(yaml.safe_dump({"gateway": section}), encoding="utf-8")
    module = [sys.executable, "-m", "bench.fuzz.gateway"]
    command = Command(
        name=_NAME,
        arguments=[*module, "--config", str(profile), "--blocks", str(blocks)],
        ready_url=f"http://127.0.0.1:{port}/health/ready",
        start_seconds=60.0,
        environment={},
    )
    async with AsyncExitStack() as stack:
        process = await start_child(stack, command, folder)
        yield Subject(port, process, folder / f"{_NAME}.log", blocks)
