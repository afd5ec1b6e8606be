"""A gateway in a separate process: started from a profile, ended by signals, its log captured."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from tests.fakes.worker import FakeWorker

_ROOT = Path(__file__).parents[2]
_STAND_IN = Path(__file__).parent / "stand_in"
_START_SECONDS = 15.0
_STOP_SECONDS = 10.0
_LINE_BYTES = 2**20
_ERASE_LINE = "\x1b[K"
_DEFAULTS: Mapping[str, Any] = {
    "drain": {"accept_seconds": 0.0, "finish_seconds": 1.0},
    "log": {"format": "json", "level": "info"},
}
ALONE = (sys.executable, "-m", "gateway")
SERVE = (str(Path(sys.executable).with_name("specgate")), "serve")
AT_A_TERMINAL = ("setsid", "--ctty", *SERVE)
"""`SERVE` with the pseudo-terminal that it gets as its controlling terminal."""


@dataclass(slots=True)
class GatewayProcess:
    """A gateway in a separate process.

    Attributes:
        process: The process that was started; with several processes, their parent.
        port: On 127.0.0.1.
        url: Base URL.
        client: For requests to it.
        folder: Has its profile and the files of the stand-in worker.
        lines: The lines of its stderr so far.
        terminal: The other end of its terminal; None: it has none.
    """

    process: asyncio.subprocess.Process
    port: int
    url: str
    client: httpx.AsyncClient
    folder: Path
    lines: list[str] = field(default_factory=list)
    terminal: int | None = None

    @property
    def rss_bytes(self) -> int:
        """Resident memory of the process."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    @property
    def lives(self) -> list[list[int]]:
        """Process ids of each run of the stand-in worker, oldest first."""
        file = self.folder / "lives"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [[int(pid) for pid in line.split()] for line in text.splitlines()]

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The log lines of one event; at a terminal one may follow where a spinner was erased."""
        lines = [line.removeprefix(_ERASE_LINE) for line in self.lines]
        parsed = [json.loads(line) for line in lines if line.startswith("{")]
        return [line for line in parsed if line["event"] == event]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    def press_ctrl_c(self) -> None:
        """Let its terminal send SIGINT to the processes in the foreground."""
        assert self.terminal is not None
        os.write(self.terminal, b"\x03")

    def said(self, words: str) -> bool:
        """Whether a line contains `words`."""
        return any(words in line for line in self.lines)

    async def ended(self, *, within_seconds: float = _STOP_SECONDS) -> int:
        """Wait until it has ended; returns the exit status."""
        async with asyncio.timeout(within_seconds):
            return await self.process.wait()

    async def until_ready(self) -> None:
        """Wait until it has a worker that is ready."""
        await self._until_200("/health/ready")

    async def until_live(self) -> None:
        """Wait until it answers, with or without a worker."""
        await self._until_200("/health/live")

    async def _until_200(self, path: str) -> None:
        async with asyncio.timeout(_START_SECONDS):
            while True:
                assert self.process.returncode is None, "\n".join(self.lines)
                try:
                    if (await self.client.get(path)).status_code == 200:
                        return
                except httpx.TransportError:
                    pass  # not listening yet
                await asyncio.sleep(0.02)


@asynccontextmanager
async def gateway_process(
    folder: Path,
    *workers: FakeWorker,
    command: Sequence[str] = ALONE,
    wait_ready: bool = True,
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
    **settings: Any,
) -> AsyncIterator[GatewayProcess]:
    """Start a gateway; it is ended in any case.

    Args:
        folder: An empty folder for the profile. The path of a Unix socket has at most 107 bytes.
        workers: Remote workers; none: the gateway starts the stand-in worker.
        command: `ALONE`, `SERVE` or `AT_A_TERMINAL`.
        wait_ready: Wait until it is ready.
        environment: Added to the test's environment.
        port: On 127.0.0.1; None: any free one.
        settings: The profile's `gateway:` section.
    """
    port = port or _free_port()
    settings = {**_DEFAULTS, "port": port, "workers": [w.url for w in workers], **settings}
    profile = folder / "profile.yaml"
    profile.write_text(yaml.safe_dump({"gateway": settings}), encoding="utf-8")
    sockets = ["--socket-dir", str(folder)] if command is ALONE and not workers else []
    terminal, stderr = os.openpty() if command is AT_A_TERMINAL else (None, None)
    process = await asyncio.create_subprocess_exec(
        *command,
        "--config",
        str(profile),
        *sockets,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": f"{_STAND_IN}:{_ROOT}",
            "TMPDIR": str(folder),
            "XDG_CACHE_HOME": str(folder),
            **(environment or {}),
        },
        stdin=stderr,
        stderr=asyncio.subprocess.PIPE if stderr is None else stderr,
        limit=_LINE_BYTES,
        start_new_session=terminal is None,  # else `setsid` does it
    )
    if stderr is not None:
        os.close(stderr)
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, timeout=20.0, verify=False) as client:
        gateway = GatewayProcess(process, port, url, client, folder, terminal=terminal)
        reading = asyncio.create_task(_read_lines(gateway), name="stderr")
        try:
            if wait_ready:
                await gateway.until_ready()
            yield gateway
        finally:
            await _end(process)
            await reading


async def _read_lines(gateway: GatewayProcess) -> None:
    if gateway.terminal is not None:
        await asyncio.to_thread(_read_terminal, gateway.terminal, gateway.lines)
        return
    assert gateway.process.stderr is not None
    async for line in gateway.process.stderr:
        gateway.lines.append(line.decode("utf-8", "replace").rstrip("\n"))


def _read_terminal(terminal: int, lines: list[str]) -> None:
    # EIO: the last process that had it open has ended.
    with contextlib.suppress(OSError), open(terminal, encoding="utf-8", errors="replace") as text:
        for line in text:
            lines.append(line.rstrip("\n"))


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process and its descendants, by SIGTERM first."""
    below = _below(process.pid)
    if process.returncode is None:
        process.terminate()
        await asyncio.sleep(0.05)
    if process.returncode is None:
        process.terminate()  # the second signal ends a drain
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    for left in below:
        if left.is_running():
            left.kill()


def _below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
