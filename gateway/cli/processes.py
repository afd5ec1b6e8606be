"""Start, restart and stop several gateway processes on one listening socket.

The first process supervises the worker. It is stopped last, because the others may still stream
from that worker.
"""

import asyncio
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog
import uvloop
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from gateway.admission import create_shared_ledger
from gateway.cli.announce import announcer
from gateway.cli.terminal import tell
from gateway.server import bind, drain_notice
from gateway.settings import GatewaySettings, child_environment
from gateway.supervisor import Backoff

log = structlog.get_logger(__name__)

_CONFIG_EXIT_STATUS = 2
_SPARE_SECONDS = 15.0


def run_processes(
    settings: GatewaySettings, profile: Path, socket_dir: Path, overrides: Mapping[str, str]
) -> int:
    """Run until a signal; returns the exit status.

    Args:
        settings: Validated settings.
        profile: Where the processes read them from.
        socket_dir: Folder of the supervised worker's socket.
        overrides: What the processes do not find in the profile, as in `load_settings`.
    """
    sock = bind(settings.host, settings.port)
    metrics_dir = Path(tempfile.mkdtemp(prefix="specgate-metrics-"))
    try:
        with sock:
            parent = _Parent(settings, profile, sock, socket_dir, metrics_dir, overrides)
            return uvloop.run(parent.run())
    finally:
        shutil.rmtree(metrics_dir)


@dataclass(slots=True)
class _Parent:
    settings: GatewaySettings
    profile: Path
    sock: socket.socket
    socket_dir: Path
    metrics_dir: Path
    overrides: Mapping[str, str]
    _ledger: int = field(default_factory=create_shared_ledger, init=False)
    _children: dict[int, asyncio.subprocess.Process] = field(default_factory=dict, init=False)
    _ending: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _signal: signal.Signals = field(default=signal.SIGTERM, init=False)
    _status: int = field(default=0, init=False)

    async def run(self) -> int:
        """Run all processes until a signal, or until one of them exits with a wrong setting."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        keepers = [
            asyncio.create_task(self._keep(index), name=f"process-{index}")
            for index in range(self.settings.processes)
        ]
        announced = announcer(self.settings, self.sock).watch_url()
        announcing = asyncio.create_task(announced, name="announce")
        try:
            await self._ending.wait()
            announcing.cancel()
            await self._end_children()
        finally:
            tasks = [*keepers, announcing]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if self._status == 0:
            tell("stopped")
        return self._status

    def _on_signal(self, number: signal.Signals) -> None:
        if self._ending.is_set():
            tell("ending at once")
            self._signal_children(number)
            return
        drain = self.settings.drain
        accept_seconds = 0.0 if number == signal.SIGINT else drain.accept_seconds
        tell(drain_notice(self._running_requests(), accept_seconds + drain.finish_seconds))
        self._signal = number
        self._ending.set()

    def _running_requests(self) -> int:
        """Requests of all processes that run or wait."""
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self.metrics_dir))  # type: ignore[no-untyped-call]  # library has no types
        gauges = ("gateway_inflight_requests", "gateway_queue_depth")
        return int(sum(registry.get_sample_value(gauge) or 0 for gauge in gauges))

    def _signal_children(self, number: signal.Signals) -> None:
        for child in self._children.values():
            if child.returncode is None:
                child.send_signal(number)

    async def _keep(self, index: int) -> None:
        """Keep one process running."""
        backoff = Backoff(first_seconds=1.0, most_seconds=30.0, reset_seconds=60.0)
        while not self._ending.is_set():
            started = time.monotonic()
            child = self._children[index] = await self._start(index)
            status = await child.wait()
            mark_process_dead(child.pid, str(self.metrics_dir))  # type: ignore[no-untyped-call]  # library has no types
            if self._ending.is_set():
                return
            if status == _CONFIG_EXIT_STATUS:
                self._status = status
                self._ending.set()
                return
            log.error("process_ended", index=index, pid=child.pid, exit_status=status)
            await asyncio.sleep(backoff.after(time.monotonic() - started))

    async def _start(self, index: int) -> asyncio.subprocess.Process:
        arguments = ["-m", "gateway", "--config", str(self.profile)]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            "--fd",
            str(self.sock.fileno()),
            "--socket-dir",
            str(self.socket_dir),
            env=child_environment(
                index=index,
                ledger=self._ledger,
                metrics_dir=self.metrics_dir,
                overrides=self.overrides,
            ),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=(self.sock.fileno(), self._ledger),
            start_new_session=True,  # Ctrl-C reaches the parent only; it signals its children
        )

    async def _end_children(self) -> None:
        """Drain all processes; the first ends its worker when the others are gone."""
        self._signal_children(self._signal)
        drain = self.settings.drain
        bound = drain.accept_seconds + drain.finish_seconds + _SPARE_SECONDS
        others = [child for index, child in self._children.items() if index != 0]
        await self._wait_or_kill(others, bound)
        first = [self._children[0]] if 0 in self._children else []
        for child in first:
            assert child.stdin is not None
            child.stdin.close()
        await self._wait_or_kill(first, bound + self.settings.supervisor.stop_seconds)

    async def _wait_or_kill(
        self, children: list[asyncio.subprocess.Process], seconds: float
    ) -> None:
        waits = [asyncio.create_task(child.wait()) for child in children]
        if waits:
            await asyncio.wait(waits, timeout=seconds)
        for child in children:
            if child.returncode is None:
                log.error("process_killed", pid=child.pid)
                child.kill()
                await child.wait()
