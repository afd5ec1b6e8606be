"""The systems under test: a gateway with two proxies to a real worker, and a whole service."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from loadtest.chaos import profile
from loadtest.chaos.disk import SmallDisk
from loadtest.chaos.proxy import FaultProxy
from loadtest.processes import free_port
from loadtest.service import RunningGateway, private_cache, start_gateway, start_worker


@dataclass(frozen=True, slots=True)
class ProxiedStage:
    """A gateway whose two remote workers are proxies of the same real one."""

    gateway: RunningGateway
    proxies: tuple[FaultProxy, FaultProxy]


@dataclass(frozen=True, slots=True)
class ServiceStage:
    """A gateway that owns its worker.

    Attributes:
        worker_log: Log of the current worker.
        disk: Disk of its snapshots; None if this machine allows none.
        disk_flaw: Why not.
        snapshot: Folder of its snapshots, as seen outside of its mount namespace.
    """

    gateway: RunningGateway
    worker_log: Path
    disk: SmallDisk | None
    disk_flaw: str | None
    snapshot: Path


@asynccontextmanager
async def running_proxied(folder: Path, default: Path) -> AsyncIterator[ProxiedStage]:
    """Start the worker, its proxies, and the gateway.

    Args:
        folder: Takes settings and logs.
        default: The profile that it starts from.

    Raises:
        StartError: One of them did not come up.
    """
    settings = read_profile(default)
    async with AsyncExitStack() as stack:
        engine = profile.worker(settings["engine"], cache_dir=await private_cache(default, folder))
        port = free_port()
        seconds = profile.STOP_SECONDS
        await start_worker(stack, folder, engine, port=port, stop_seconds=seconds)
        proxies = FaultProxy(port), FaultProxy(port)
        for proxy in proxies:
            stack.push_async_callback(proxy.close)
            await proxy.listen()
        gateway = profile.proxied_gateway(
            settings["gateway"], port=free_port(), worker_ports=[proxy.port for proxy in proxies]
        )
        running = await start_gateway(stack, folder, {"gateway": gateway}, stop_seconds=seconds)
        yield ProxiedStage(running, proxies)


@asynccontextmanager
async def running_service(folder: Path, default: Path) -> AsyncIterator[ServiceStage]:
    """Start the service; with a small disk for its snapshots where the machine allows it.

    Args:
        folder: Takes settings and logs.
        default: The profile that it starts from.

    Raises:
        StartError: It did not come up.
    """
    settings = read_profile(default)
    async with AsyncExitStack() as stack:
        cache = await private_cache(default, folder)
        disk = SmallDisk(cache / "suffix")
        flaw = await disk.flaw()
        log = folder / "worker.log"
        whole = {
            "gateway": profile.service_gateway(
                settings["gateway"], port=free_port(), worker_log=log
            ),
            "engine": profile.worker(settings["engine"], cache_dir=cache),
        }
        running = await start_gateway(
            stack,
            folder,
            whole,
            stop_seconds=profile.STOP_SECONDS,
            wrap=list if flaw is not None else disk.command,
        )
        usable = disk if flaw is None else None
        yield ServiceStage(running, log, usable, flaw, cache / "suffix")


def read_profile(path: Path) -> dict[str, Any]:
    """The sections of a profile."""
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found
