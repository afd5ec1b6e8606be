"""The real service, gateway and worker, from a profile: start it, find its processes, stop it."""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import yaml

from loadtest.memory import Processes
from loadtest.processes import ChildProcess, Command, RunError, StartError, run_to_end, start_child

SPECGATE = str(Path(sys.executable).with_name("specgate"))
_START_SECONDS = 300.0
_ASK_SECONDS = 10.0
_CONFIG_SECONDS = 60.0

Settings = Mapping[str, Any]


class ServiceError(Exception):
    """A gateway does not report the state of its workers; the message says why."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The state of a worker, as its gateway reports it.

    Attributes:
        up: It accepts requests.
        pid: Of the worker that the gateway owns; None while there is none.
        restarts: How often the gateway restarted it.
    """

    up: bool
    pid: int | None
    restarts: int


class RunningGateway:
    """A gateway that runs, with or without a worker of its own.

    Attributes:
        port: On 127.0.0.1.
        child: Its process.
        log: What it writes.
    """

    def __init__(self, port: int, child: ChildProcess, log: Path) -> None:
        self.port = port
        self.child = child
        self.log = log

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self.port}"

    async def workers(self) -> list[WorkerState]:
        """The states of its workers.

        Raises:
            ServiceError: It does not answer.
        """
        timeout = aiohttp.ClientTimeout(total=_ASK_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"{self.url}/health/workers") as answer,
            ):
                found = (await answer.json())["workers"]
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ServiceError(f"/health/workers: {error!r}") from error
        return [_state_of(worker) for worker in found]

    async def processes(self) -> Processes:
        """Those of a service that owns its worker.

        Raises:
            ServiceError: Its worker does not run.
        """
        (worker,) = await self.workers()
        if worker.pid is None:
            raise ServiceError("the worker does not run")
        try:
            return Processes.find(self.child.pid, worker.pid)
        except psutil.NoSuchProcess as error:
            raise ServiceError(f"the worker does not run: {error}") from error

    def log_lines(self) -> list[dict[str, Any]]:
        """What it logged as JSON, other lines left out."""
        lines = []
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("{"):
                try:
                    lines.append(json.loads(line))
                except ValueError:
                    continue  # the worker's, or not yet whole
        return lines

    def tries(self) -> dict[str, int]:
        """How often each request was sent to a worker, by its id, from its log."""
        return {
            str(line["request_id"]): int(line["attempts"])
            for line in self.log_lines()
            if line.get("event") == "request" and "request_id" in line
        }

    def resumed(self) -> frozenset[str]:
        """Ids of the requests whose streams went on with another worker, from its log."""
        return frozenset(
            str(line["request_id"])
            for line in self.log_lines()
            if line.get("event") == "stream_resumed"
        )

    def start_seconds(self) -> list[float]:
        """How long each start of its worker took, from its log."""
        return [
            float(line["start_seconds"])
            for line in self.log_lines()
            if line.get("event") == "worker_ready"
        ]


async def start_gateway(
    stack: AsyncExitStack,
    folder: Path,
    profile: Settings,
    *,
    stop_seconds: float,
    wrap: Callable[[list[str]], list[str]] = list,
) -> RunningGateway:
    """Start `specgate serve` and wait until it is ready.

    Args:
        stack: Stops it.
        folder: Takes its profile and its log.
        profile: With a port; with an `engine:` section, unless its workers run elsewhere.
        stop_seconds: From SIGTERM to SIGKILL.
        wrap: Changes its command; the new one must keep the process id.

    Raises:
        StartError: It did not come up.
    """
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(dict(profile)), encoding="utf-8")
    port = int(profile["gateway"]["port"])
    command = Command(
        name="gateway",
        arguments=wrap([SPECGATE, "serve", "--config", str(path)]),
        ready_url=f"http://127.0.0.1:{port}/health/ready",
        start_seconds=_START_SECONDS,
        environment={},
        stop_seconds=stop_seconds,
    )
    return RunningGateway(port, await start_child(stack, command, folder), folder / "gateway.log")


async def start_worker(
    stack: AsyncExitStack, folder: Path, engine: Settings, *, port: int, stop_seconds: float
) -> ChildProcess:
    """Start a worker alone and wait until it is ready.

    Args:
        stack: Stops it.
        folder: Takes its profile and its log.
        engine: The profile's section.
        port: On 127.0.0.1.
        stop_seconds: From SIGTERM to SIGKILL.

    Raises:
        StartError: It did not come up.
    """
    path = folder / "worker.yaml"
    path.write_text(yaml.safe_dump({"engine": dict(engine)}), encoding="utf-8")
    options = ("--config", str(path), "--host", "127.0.0.1", "--port", str(port))
    command = Command(
        name="worker",
        arguments=[sys.executable, "-m", "engine", *options],
        ready_url=f"http://127.0.0.1:{port}/health",
        start_seconds=_START_SECONDS,
        environment={},
        stop_seconds=stop_seconds,
    )
    return await start_child(stack, command, folder)


async def private_cache(profile: Path, folder: Path) -> Path:
    """A separate cache folder that shares only the models of the default one.

    Raises:
        StartError: The engine does not accept the profile.
    """
    arguments = (sys.executable, "-m", "engine", "--config", str(profile), "--print-config")
    try:
        printed = await run_to_end(*arguments, seconds=_CONFIG_SECONDS)
        models = Path(json.loads(printed)["cache_dir"]) / "models"
    except (RunError, ValueError, KeyError) as error:
        raise StartError(f"{profile}: {error}") from error
    cache = folder / "cache"
    cache.mkdir()
    (cache / "suffix").mkdir(mode=0o700)
    (cache / "models").symlink_to(models)
    return cache


def _state_of(worker: Mapping[str, Any]) -> WorkerState:
    supervisor = worker.get("supervisor") or {}
    return WorkerState(
        up=bool(worker["up"]),
        pid=supervisor.get("pid"),
        restarts=int(supervisor.get("restarts", 0)),
    )
