"""Starts what the gateway benchmark measures: the fake worker, specgate, and each peer."""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from bench.gateway.round import Target
from bench.peers import PEERS, InstallError, install
from loadtest.processes import Command, StartError, free_port, start_child
from loadtest.progress import say

DIRECT = "direct"
SPECGATE = "specgate"


@dataclass(slots=True)
class Field:
    """Everything that runs.

    Attributes:
        targets: Direct first, then specgate, then the peers that came up.
        unavailable: Peers that did not, with the reason.
    """

    targets: list[Target]
    unavailable: dict[str, str] = field(default_factory=dict)


@asynccontextmanager
async def running_targets(folder: Path) -> AsyncIterator[Field]:
    """Start everything, and stop it again whatever happens.

    Args:
        folder: Takes configs and logs.

    Raises:
        StartError: The worker or specgate did not come up; a peer that does not is reported.
    """
    async with AsyncExitStack() as stack:
        worker_port, specgate_port = free_port(), free_port()
        await start_child(stack, fake_worker_command(worker_port), folder)
        specgate = await start_child(stack, _specgate(folder, worker_port, specgate_port), folder)
        running = Field(
            targets=[
                Target(DIRECT, worker_port, None),
                Target(SPECGATE, specgate_port, specgate),
            ]
        )
        for peer in PEERS:
            port = free_port()
            try:
                say(f"installing {peer.name} below .bench (once)")
                installed = await install(peer.name, peer.requirements)
                process = await start_child(
                    stack, peer.command(installed, worker_port, port), folder
                )
            except (InstallError, StartError) as error:
                running.unavailable[peer.name] = str(error)
                say(f"{peer.name} is not available: {error}")
                continue
            running.targets.append(Target(peer.name, port, process))
        yield running


def fake_worker_command(port: int) -> Command:
    """The fake worker, on `port`."""
    return Command(
        name="fake-worker",
        arguments=[sys.executable, "-m", "tests.fakes.worker", "--port", str(port)],
        ready_url=f"http://127.0.0.1:{port}/health",
        start_seconds=20.0,
        environment={},
    )


def _specgate(folder: Path, worker_port: int, port: int) -> Command:
    admission = {"max_running_requests": 4096, "max_queued_requests": 4096}
    settings = {
        "port": port,
        "processes": 1,
        "workers": [f"http://127.0.0.1:{worker_port}"],
        "admission": admission,
        "drain": {"accept_seconds": 0.0, "finish_seconds": 1.0},
    }
    config = folder / "specgate.yaml"
    config.write_text(yaml.safe_dump({"gateway": settings}), encoding="utf-8")
    command = str(Path(sys.executable).with_name("specgate"))
    return Command(
        name=SPECGATE,
        arguments=[command, "serve", "--config", str(config)],
        ready_url=f"http://127.0.0.1:{port}/health/ready",
        start_seconds=60.0,
        environment={},
    )
