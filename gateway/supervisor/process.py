"""One run of the worker: its process group, from the start until its last child has ended."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_TAIL_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class WorkerCommand:
    """What to run.

    Attributes:
        arguments: Program and arguments.
        log_path: File for the worker's output; None: it goes to the gateway's.
    """

    arguments: Sequence[str]
    log_path: Path | None


class WorkerProcess:
    """A running worker and all its children.

    It leads its own session, so that Ctrl-C at a terminal reaches the gateway only, which then
    stops the worker.
    """

    def __init__(self, process: asyncio.subprocess.Process, log_path: Path | None) -> None:
        self._process = process
        self._log_path = log_path
        self.pid = process.pid
        self.started_seconds = time.monotonic()

    @classmethod
    async def start(cls, command: WorkerCommand) -> Self:
        """Start the worker."""
        with contextlib.ExitStack() as stack:
            output = None
            if command.log_path is not None:
                command.log_path.parent.mkdir(parents=True, exist_ok=True)
                output = stack.enter_context(command.log_path.open("wb"))
            process = await asyncio.create_subprocess_exec(
                *command.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return cls(process, command.log_path)

    @property
    def exit_status(self) -> int | None:
        """Exit status; negative for a signal; None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait for the end of the leading process."""
        return await self._process.wait()

    async def stop(self, *, grace_seconds: float) -> None:
        """Send SIGTERM, and after the grace period SIGKILL to the rest of its process group."""
        try:
            if self.exit_status is None:
                self._signal(signal.SIGTERM)
                async with asyncio.timeout(grace_seconds):
                    await self._process.wait()
        except TimeoutError:
            pass  # SIGKILL follows
        finally:
            self._signal(signal.SIGKILL)
            await asyncio.shield(self._process.wait())

    def last_lines(self, count: int) -> list[str]:
        """The last lines of its log file; empty if it has none."""
        if self._log_path is None:
            return []
        try:
            with self._log_path.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - _TAIL_BYTES))
                text = log.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return []
        return text.splitlines()[-count:]

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
