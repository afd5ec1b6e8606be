"""The whole gateway in the test's loop, called over ASGI instead of a socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.api import Services
from gateway.app import create_app
from gateway.assembly import Lifecycle, ProcessContext
from gateway.settings import GatewaySettings
from tests.integration.waiting import eventually


@dataclass(frozen=True, slots=True)
class Application:
    """A running gateway.

    Attributes:
        app: The ASGI app, with the lifespan's state in each request's scope.
        client: Calls it over ASGI; it returns complete responses only.
        services: What the lifespan built.
        lifecycle: Its shutdown state.
        registry: Its metrics.
    """

    app: ASGIApp
    client: httpx.AsyncClient
    services: Services
    lifecycle: Lifecycle
    registry: CollectorRegistry


@asynccontextmanager
async def running(*workers: str, ready: bool = True, **settings: Any) -> AsyncIterator[Application]:
    """Run the gateway in front of `workers`; `ready` waits until one of them is up."""
    # A probe that fails because this machine stands still for a second is not repeated in a test.
    chosen = {"upstream": {"probe_seconds": 30, "probe_timeout_seconds": 10}, **settings}
    registry, lifecycle = CollectorRegistry(), Lifecycle()
    built = create_app(
        GatewaySettings(workers=workers, **chosen), lifecycle=lifecycle, registry=registry
    )
    async with built.router.lifespan_context(built) as state:
        assert state is not None

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await built({**scope, "state": dict(state)}, receive, send)

        services: Services = state["services"]
        if ready:
            await eventually(lambda: services.pool.is_ready, within_seconds=15.0)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            yield Application(app, client, services, lifecycle, registry)


@asynccontextmanager
async def started(
    settings: GatewaySettings,
    *,
    process: ProcessContext | None = None,
    lifecycle: Lifecycle | None = None,
) -> AsyncIterator[Services]:
    """Run the services of a gateway with these settings, without an HTTP client."""
    app = create_app(settings, process=process, lifecycle=lifecycle, registry=CollectorRegistry())
    async with app.router.lifespan_context(app) as state:
        assert state is not None
        yield state["services"]
