"""create_app(settings): the routes and the middleware; `assembly` builds the services."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypedDict

from fastapi import FastAPI
from prometheus_client import REGISTRY, CollectorRegistry
from starlette.routing import Route

from gateway.admission import read_records
from gateway.api import (
    BodyPolicy,
    InferenceRoute,
    Services,
    health_routes,
    install_error_handlers,
    metrics_routes,
    models_routes,
    speculation_routes,
)
from gateway.assembly import Lifecycle, ProcessContext, build_services
from gateway.errors import ConfigError
from gateway.middleware import Observe
from gateway.protocol import ENDPOINTS, forwarded_endpoint
from gateway.settings import GatewaySettings, read_secret
from gateway.telemetry import GatewayMetrics, Tracing, open_tracing

_QUIET = (
    "/metrics",
    "/metrics/worker",
    "/ping",
    "/version",
    "/health",
    "/health/live",
    "/health/ready",
    "/health/workers",
    "/speculation",
)


class State(TypedDict):
    """The state that every request gets from the lifespan."""

    services: Services


def create_app(
    settings: GatewaySettings,
    *,
    process: ProcessContext | None = None,
    lifecycle: Lifecycle | None = None,
    registry: CollectorRegistry = REGISTRY,
) -> FastAPI:
    """Build the gateway.

    Args:
        settings: Validated settings.
        process: Context of this process; None: it is the only one.
        lifecycle: Shared with the server; None: a new one.
        registry: Where the metrics are registered; tests use their own.

    Raises:
        ConfigError: A file in the settings cannot be used.
    """
    _check_files(settings)
    process = process or ProcessContext()
    lifecycle = lifecycle or Lifecycle()
    metrics = GatewayMetrics(registry, multiprocess=settings.processes > 1)
    tracing = _tracing(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        async with AsyncExitStack() as stack:
            if tracing is not None:
                stack.push_async_callback(asyncio.to_thread, tracing.close)
            services = build_services(settings, process, lifecycle, metrics, stack)
            yield {"services": services}

    app = FastAPI(
        title="specgate", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.router.redirect_slashes = False  # it would redirect to whatever `Host` the client sent
    endpoints = [*ENDPOINTS, *map(forwarded_endpoint, settings.forward_paths)]
    body_policy = BodyPolicy(
        max_bytes=settings.admission.max_body_bytes,
        total_seconds=settings.admission.body_timeout_seconds,
        idle_seconds=settings.admission.body_idle_seconds,
    )
    app.router.routes.extend(
        Route(endpoint.path, InferenceRoute(endpoint, body_policy), methods=["POST"])
        for endpoint in endpoints
    )
    app.include_router(models_routes())
    app.include_router(health_routes())
    app.include_router(speculation_routes(timeout_seconds=settings.upstream.probe_timeout_seconds))
    app.include_router(
        metrics_routes(metrics, timeout_seconds=settings.upstream.probe_timeout_seconds)
    )
    install_error_handlers(app)
    app.add_middleware(
        Observe,
        endpoints=[*(endpoint.path for endpoint in endpoints), "/v1/models"],
        quiet=_QUIET,
        count=lambda record, now: metrics.request_ended(record, now=now),
        begin_trace=None if tracing is None else tracing.begin,
    )
    return app


def _tracing(settings: GatewaySettings) -> Tracing | None:
    chosen = settings.tracing
    if chosen.endpoint is None:
        return None
    return open_tracing(chosen.endpoint, sample_ratio=chosen.sample_ratio)


def _check_files(settings: GatewaySettings) -> None:
    """Read the lifespan's files early: an error in the lifespan would show a traceback."""
    read_secret(settings.upstream.api_key_file)
    read_secret(settings.tenant_secret_file)
    if settings.keys.file is not None:
        try:
            read_records(settings.keys.file)
        except OSError as error:
            raise ConfigError(f"{settings.keys.file}: {error.strerror}") from error
