"""create_app(settings): the routes and the middleware; `assembly` builds the services."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypedDict

import structlog
from fastapi import FastAPI
from prometheus_client import REGISTRY, CollectorRegistry
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from gateway.admission import read_records, require_redis
from gateway.api import (
    BodyPolicy,
    InferenceRoute,
    Services,
    canary_routes,
    heads_routes,
    health_routes,
    install_error_handlers,
    live_routes,
    metrics_routes,
    models_routes,
    openapi_routes,
    page_routes,
    responses_routes,
    speculation_routes,
)
from gateway.assembly import Lifecycle, ProcessContext, build_services
from gateway.errors import ConfigError
from gateway.middleware import Observe
from gateway.protocol import ENDPOINTS, forwarded_endpoint
from gateway.responses import check_store
from gateway.settings import GatewaySettings, read_secret
from gateway.telemetry import GatewayMetrics, Tracing, open_tracing

log = structlog.get_logger(__name__)

_QUIET = (
    "/metrics",
    "/metrics/worker",
    "/ping",
    "/version",
    "/openapi.json",
    "/health",
    "/health/live",
    "/health/ready",
    "/health/workers",
    "/speculation",
    "/live",
    "/heads",
    "/heads/forget",
    "/canary/open",
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
    process = process or ProcessContext()
    _check_files(settings, is_first=process.index == 0)
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
    app.include_router(responses_routes())
    app.include_router(openapi_routes(endpoints, needs_key=settings.keys.file is not None))
    app.include_router(health_routes())
    app.include_router(speculation_routes(timeout_seconds=settings.upstream.probe_timeout_seconds))
    app.include_router(live_routes())
    app.include_router(heads_routes(timeout_seconds=settings.upstream.probe_timeout_seconds))
    app.include_router(canary_routes())
    app.include_router(
        metrics_routes(metrics, timeout_seconds=settings.upstream.probe_timeout_seconds)
    )
    page = page_routes() if settings.page else []
    app.router.routes.extend(page)
    _allow_head(app)
    install_error_handlers(app)
    app.add_middleware(
        Observe,
        endpoints=[*(endpoint.path for endpoint in endpoints), "/v1/models"],
        quiet=[*_QUIET, *(route.path for route in page)],
        count=lambda record, now: metrics.request_ended(record, now=now),
        begin_trace=None if tracing is None else tracing.begin,
    )
    if settings.cors.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors.origins,
            allow_methods=["GET", "POST", "DELETE"],
            # The SDKs send a dozen `x-stainless-*` headers, and new ones with each release. A page
            # that may call the gateway may send and read any; there are no cookies to protect.
            allow_headers=["*"],
            expose_headers=["*"],
        )
    return app


def _allow_head(app: FastAPI) -> None:
    """Answer HEAD wherever there is GET, which FastAPI leaves out (RFC 9110, section 9.3.2)."""
    for route in app.routes:
        if isinstance(route, Route) and route.methods is not None and "GET" in route.methods:
            route.methods.add("HEAD")


def _tracing(settings: GatewaySettings) -> Tracing | None:
    chosen = settings.tracing
    if chosen.endpoint is None:
        return None
    return open_tracing(chosen.endpoint, sample_ratio=chosen.sample_ratio)


def _check_files(settings: GatewaySettings, *, is_first: bool) -> None:
    """Check early what the lifespan needs: an error in the lifespan would show a traceback."""
    read_secret(settings.upstream.api_key_file)
    read_secret(settings.tenant_secret_file)
    read_secret(settings.limits.password_file)
    if settings.limits.store is not None:
        require_redis()
    password = read_secret(settings.responses.password_file)
    if is_first:
        check_store(
            settings.responses.store,
            settings.responses.file,
            password=None if password is None else password.get_secret_value(),
        )
    file = settings.keys.file
    if file is None:
        return
    try:
        records = read_records(file)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    if is_first and not records:
        # No reason to refuse the start: keys may be created while the gateway runs.
        create = f"specgate keys create --tenant NAME --file {file}"
        log.warning("keys_missing", file=str(file), effect="every call gets 401", create=create)
