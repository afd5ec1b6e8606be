"""Starts what the pacing benchmark needs: a real service to record, a gateway to play through."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml

from bench.pacing.record import Service
from loadtest.processes import ChildProcess, Command, free_port, start_child

PROFILE = Path(__file__).parents[2] / "configs" / "cpu-smollm2.yaml"
_SPECGATE = str(Path(sys.executable).with_name("specgate"))
_SERVICE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Stage:
    """Gateway and worker, ready to play.

    Attributes:
        port: The gateway's, on 127.0.0.1; `worker_port` is the worker's.
    """

    gateway: ChildProcess
    worker: ChildProcess
    port: int
    worker_port: int


@asynccontextmanager
async def running_stage(
    folder: Path, patterns: Path, *, processes: int = 1
) -> AsyncIterator[Stage]:
    """Start a worker that plays `patterns`, and a gateway with the default profile before it.

    Args:
        folder: Takes settings and logs.
        patterns: What `save_patterns` wrote.
        processes: Of the gateway.

    Raises:
        StartError: One of them did not come up.
    """
    port, worker_port = free_port(), free_port()
    async with AsyncExitStack() as stack:
        worker = await start_child(stack, _worker(worker_port, patterns), folder)
        gateway = await start_child(stack, _gateway(folder, port, worker_port, processes), folder)
        yield Stage(gateway, worker, port, worker_port)


@asynccontextmanager
async def running_service(folder: Path) -> AsyncIterator[Service]:
    """Start the default profile as a whole, its suffix index empty.

    Raises:
        StartError: It did not come up.
    """
    port = free_port()
    command = Command(
        name="service",
        arguments=[_SPECGATE, "serve", "--config", str(PROFILE)],
        ready_url=f"http://127.0.0.1:{port}/health/ready",
        start_seconds=_SERVICE_SECONDS,
        environment={
            "SPECGATE_GATEWAY__PORT": str(port),
            "SPECGATE_ENGINE__SPECULATION__SUFFIX__WARM_START": "false",
        },
    )
    async with AsyncExitStack() as stack:
        await start_child(stack, command, folder)
        yield await find_service(port)


async def find_service(port: int) -> Service:
    """The service on 127.0.0.1, with the model that it serves.

    Raises:
        aiohttp.ClientError: It does not answer.
    """
    return Service(port, json.loads(await get_page(port, "/v1/models"))["data"][0]["id"])


async def get_page(port: int, path: str) -> str:
    """A page of a server on 127.0.0.1.

    Raises:
        aiohttp.ClientError: It does not answer, or with an error status.
    """
    timeout = aiohttp.ClientTimeout(total=60.0)
    async with (
        aiohttp.ClientSession(raise_for_status=True, timeout=timeout) as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return await answer.text()


def _worker(port: int, patterns: Path) -> Command:
    options = ("--port", str(port), "--patterns", str(patterns))
    return Command(
        name="pacing-worker",
        arguments=[sys.executable, "-m", "bench.pacing.worker", *options],
        ready_url=f"http://127.0.0.1:{port}/health",
        start_seconds=30.0,
        environment={},
    )


def _gateway(folder: Path, port: int, worker_port: int, processes: int) -> Command:
    settings = yaml.safe_load(PROFILE.read_text(encoding="utf-8"))["gateway"]
    settings |= {
        "port": port,
        "processes": processes,
        "workers": [f"http://127.0.0.1:{worker_port}"],
        "admission": {"max_running_requests": 4096, "max_queued_requests": 4096},
        "drain": {"accept_seconds": 0.0, "finish_seconds": 1.0},
    }
    config = folder / "gateway.yaml"
    config.write_text(yaml.safe_dump({"gateway": settings}), encoding="utf-8")
    return Command(
        name="gateway",
        arguments=[_SPECGATE, "serve", "--config", str(config)],
        ready_url=f"http://127.0.0.1:{port}/health/ready",
        start_seconds=60.0,
        environment={},
    )
