"""A gateway on a real socket in the test's event loop, with its own metrics registry."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx
import uvicorn
from prometheus_client import CollectorRegistry

from gateway.app import create_app
from gateway.assembly import Lifecycle
from gateway.protocol import TenantDigests
from gateway.server import bind, make_server
from gateway.settings import GatewaySettings

_START_SECONDS = 5.0
_STOP_SECONDS = 10.0
# Short times and nothing by chance for tests; a test may override them.
_QUICK: Mapping[str, Mapping[str, Any]] = {
    "upstream": {"probe_seconds": 0.05, "probe_timeout_seconds": 1.0, "slow_start_seconds": 0.0},
    "drain": {"finish_seconds": 1.0},
    "keys": {"reload_seconds": 0.05},
    "canary": {"share": 0.0},
}
_SECRET_FILE = Path(__file__).parent / "tenant-secret"
DIGESTS = TenantDigests(_SECRET_FILE.read_bytes().strip())
"""The names that these gateways give to tenants."""


class WorkerAddress(Protocol):
    """Whatever a gateway may have behind it."""

    @property
    def url(self) -> str:
        """Base URL."""


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A running gateway and a client.

    Attributes:
        url: Base URL.
        port: On 127.0.0.1.
        client: Sends no key; closed with the gateway.
        registry: Its metrics.
    """

    url: str
    port: int
    client: httpx.AsyncClient
    registry: CollectorRegistry

    def metric(self, name: str, /, **labels: str) -> float:
        """The value of one sample; 0 if it does not exist."""
        return self.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def running_gateway(
    *workers: WorkerAddress, wait_ready: bool = True, **sections: Any
) -> AsyncIterator[RunningGateway]:
    """Run a gateway in front of `workers`.

    Args:
        workers: Already started, unless `wait_ready` is false.
        wait_ready: Wait until a worker is up.
        sections: Settings by section; they override the short times.
    """
    merged: dict[str, Any] = {name: {**_QUICK[name]} for name in _QUICK}
    merged["tenant_secret_file"] = _SECRET_FILE
    for name, value in sections.items():
        merged[name] = {**merged.get(name, {}), **value} if isinstance(value, dict) else value
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-")))
        merged["responses"] = {"path": cache / "responses.sqlite", **merged.get("responses", {})}
        yield await stack.enter_async_context(_started(workers, merged, wait_ready))


@asynccontextmanager
async def _started(
    workers: Sequence[WorkerAddress], merged: Mapping[str, Any], wait_ready: bool
) -> AsyncIterator[RunningGateway]:
    settings = GatewaySettings(workers=tuple(w.url for w in workers), **{"port": 0, **merged})
    lifecycle = Lifecycle()
    registry = CollectorRegistry()
    app = create_app(settings, lifecycle=lifecycle, registry=registry)
    server = make_server(app, settings.drain)
    sock = bind(settings.host, settings.port)
    port = sock.getsockname()[1]
    serving = asyncio.create_task(server.serve(sockets=[sock]), name="gateway")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_stop, server, serving, lifecycle)
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20.0, verify=False)
        )
        if wait_ready:
            await _until_ready(client)
        yield RunningGateway(f"http://127.0.0.1:{port}", port, client, registry)


async def _until_ready(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(_START_SECONDS):
        while True:
            if (await client.get("/health/ready")).status_code == 200:
                return
            await asyncio.sleep(0.01)


async def _stop(
    server: uvicorn.Server, serving: "asyncio.Task[None]", lifecycle: Lifecycle
) -> None:
    lifecycle.end_requests()
    server.should_exit = True
    async with asyncio.timeout(_STOP_SECONDS):
        await serving
    assert lifecycle.failed is None
