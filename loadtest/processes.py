"""Child processes of a benchmark: start, wait until ready, read CPU and memory, always stop."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil

from loadtest.progress import say

_POLL_SECONDS = 0.1
_LOG_TAIL_BYTES = 1_500


class StartError(Exception):
    """A process did not become ready; the message says what it printed last."""


class RunError(Exception):
    """A command failed, or took too long; the message says what it printed last."""


async def run_to_end(*arguments: str, seconds: float) -> bytes:
    """Run a command and return what it wrote to stdout.

    Raises:
        RunError: Its exit status was not 0, or it was killed after so many seconds.
    """
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise RunError(f"{arguments[-1]}: not done in {seconds:.0f} s") from error
    if process.returncode:
        raise RunError((errors or output).decode(errors="replace").strip()[-_LOG_TAIL_BYTES:])
    return output


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a process.

    Attributes:
        ready_url: Answers 200 once the process can be measured.
        start_seconds: Longest wait for that.
        environment: Added to this process's own.
        stop_seconds: From SIGTERM to SIGKILL.
        ready_socket: Unix socket on which `ready_url` is asked for; None: TCP.
        without: Beginnings of the names of this process's variables that it does not inherit.
        folder: Working directory; None: this process's.
    """

    name: str
    arguments: Sequence[str]
    ready_url: str
    start_seconds: float
    environment: Mapping[str, str]
    stop_seconds: float = 10.0
    ready_socket: Path | None = None
    without: tuple[str, ...] = ()
    folder: Path | None = None


class ChildProcess:
    """One running child with the processes below it.

    Args:
        command: How to start it.
        log: File that takes its output.
    """

    def __init__(self, command: Command, *, log: Path) -> None:
        self._command = command
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._tree: list[psutil.Process] = []

    @property
    def pid(self) -> int:
        """Its process id; it must have been started."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it, for the first time or again, and wait until it is ready.

        Raises:
            StartError: It ended, or took too long; it has been stopped.
        """
        command = self._command
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(command.without)}
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                cwd=command.folder,
                env={**inherited, **command.environment},
                start_new_session=True,
            )
        try:
            await self._wait_until_ready()
        except BaseException:
            await self.stop()
            raise
        parent = psutil.Process(self._process.pid)
        self._tree = [parent, *parent.children(recursive=True)]

    async def stop(self) -> int | None:
        """End it and everything it started; SIGKILL for what does not follow SIGTERM.

        Returns:
            Its exit status, negative for a signal; None if it was not running.
        """
        process = self._process
        if process is None:
            return None
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), self._command.stop_seconds)
            except TimeoutError:
                process.kill()
                await process.wait()
        with contextlib.suppress(ProcessLookupError):  # no process is left, as it should be
            os.killpg(process.pid, signal.SIGKILL)  # its own session: children that it left
        self._process = None
        return process.returncode

    def cpu_ns(self) -> int:
        """CPU time of the tree so far, to the nanosecond (10 ms ticks would hide a chunk)."""
        return sum(_thread_cpu_ns(process.pid) for process in self._tree)

    def cpu_seconds(self) -> float:
        """CPU time of the tree so far, that of ended threads included, in ticks of 10 ms."""
        times = [process.cpu_times() for process in self._tree]
        return sum(spent.user + spent.system for spent in times)

    def resident_bytes(self) -> int:
        """Resident memory of the tree now."""
        return sum(process.memory_info().rss for process in self._tree)

    def explained(self, what: str) -> str:
        """What happened to it, with its name and what it printed last."""
        tail = self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
        return f"{self._command.name} {what}: {tail}"

    async def _wait_until_ready(self) -> None:
        assert self._process is not None
        give_up_at = time.monotonic() + self._command.start_seconds
        path = self._command.ready_socket
        connector = None if path is None else aiohttp.UnixConnector(str(path))
        timeout = aiohttp.ClientTimeout(total=2.0)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            while time.monotonic() < give_up_at:
                if self._process.returncode is not None:
                    raise StartError(self.explained(f"ended with {self._process.returncode}"))
                if await _answers(session, self._command.ready_url):
                    return
                await asyncio.sleep(_POLL_SECONDS)
        raise StartError(self.explained(f"not ready in {self._command.start_seconds:.0f} s"))


async def start_child(stack: AsyncExitStack, command: Command, folder: Path) -> ChildProcess:
    """Start a child that is stopped with the others.

    Args:
        stack: Stops it.
        command: How to start it.
        folder: Takes its log.

    Raises:
        StartError: It ended, or took too long.
    """
    child = ChildProcess(command, log=folder / f"{command.name.replace(' ', '-')}.log")
    stack.push_async_callback(child.stop)
    await child.start()
    say(f"{command.name} is ready")
    return child


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


def _thread_cpu_ns(pid: int) -> int:
    # Source: proc(5), schedstat: time on the CPU in nanoseconds is the first field.
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((thread / "schedstat").read_bytes().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread ended while we looked
    return total


def free_port() -> int:
    """A free port whose successor (for metrics) is free as well."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with contextlib.suppress(OSError):
                second.bind(("127.0.0.1", port + 1))
                return port
