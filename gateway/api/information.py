"""GET routes: what the gateway tells about itself, its models and its workers.

Only `/v1/models` needs a key. What asks the workers does so at most once a second for all callers.
"""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from gateway import __version__
from gateway.api.asgi import presented_key
from gateway.api.fan_out import ask_all
from gateway.api.state import Services
from gateway.errors import (
    ModelNotFoundError,
    NoHealthyWorkerError,
    NotFoundError,
    excerpt,
)
from gateway.telemetry import GatewayMetrics
from gateway.upstream import Coalesced, Worker


def health_routes() -> APIRouter:
    """Whether the process lives, whether a worker is ready, and the state of each worker."""
    router = APIRouter()

    @router.get("/health/live")
    async def live() -> dict[str, str]:
        return {"status": "alive"}

    # `/health`, `/ping` and `/version` as vLLM has them: some clients ask before they use a server.
    @router.get("/version")
    async def version() -> dict[str, str]:
        return {"version": __version__}

    @router.api_route("/ping", methods=["GET", "POST"])
    @router.get("/health")
    @router.get("/health/ready")
    async def ready(request: Request) -> Response:
        services: Services = request.state.services
        if services.is_draining():
            return JSONResponse({"status": "draining"}, status_code=503)
        if not services.pool.is_ready:
            return JSONResponse({"status": "no healthy worker"}, status_code=503)
        return JSONResponse({"status": "ready"})

    @router.get("/health/workers")
    async def workers(request: Request) -> dict[str, Any]:
        services: Services = request.state.services
        found: list[dict[str, Any]] = [
            {
                "worker": worker.id,
                "up": worker.up,
                "in_flight": worker.in_flight,
                "ejected": worker.outlier.is_ejected,
                "ejections": worker.outlier.ejections,
                "models": sorted(worker.models),
            }
            for worker in services.pool.workers
        ]
        if services.supervisor is not None:
            found[0]["supervisor"] = asdict(services.supervisor.facts())
        return {"workers": found}

    return router


def models_routes() -> APIRouter:
    """What all workers serve, without their file paths; needs a key if the gateway has keys."""
    router = APIRouter()

    @router.get("/v1/models")
    async def list_models(request: Request) -> dict[str, Any]:
        return {"object": "list", "data": list(_models(request).values())}

    @router.get("/v1/models/{name:path}")
    async def show_model(request: Request, name: str) -> dict[str, Any]:
        if not name:
            return await list_models(request)  # some clients add a slash
        models = _models(request)
        if name not in models:
            raise ModelNotFoundError(f"The model '{excerpt(name)}' does not exist.", param="model")
        return models[name]

    return router


def _models(request: Request) -> dict[str, dict[str, Any]]:
    services: Services = request.state.services
    caller = services.admission.recognise(presented_key(dict(request.headers.raw)))
    models = services.pool.models
    if not models:
        raise NoHealthyWorkerError("No engine is available at the moment.", retry_after_seconds=5.0)
    return {name: entry for name, entry in models.items() if caller.may_use(name)}


def metrics_routes(metrics: GatewayMetrics, *, timeout_seconds: float) -> APIRouter:
    """The metrics, for Prometheus.

    A worker that the gateway started listens on a Unix socket, which a scraper cannot reach, so
    `/metrics/worker` forwards its page. Remote workers are scraped directly.

    Args:
        metrics: The gateway's metrics.
        timeout_seconds: Longest wait for the worker's page.
    """
    router = APIRouter()
    pages = Coalesced[tuple[int, bytes]]()

    @router.get("/metrics")
    async def show_metrics(request: Request) -> Response:
        text, content_type = metrics.exposition(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    @router.get("/metrics/worker")
    async def show_worker_metrics(request: Request) -> Response:
        services: Services = request.state.services
        connections = (worker.client for worker in services.pool.workers)
        own = next((c for c in connections if c.address.socket_path is not None), None)
        if own is None:
            raise NotFoundError("The workers are remote: scrape each of them itself.")
        status, text = await pages.get(lambda: own.get("/metrics", timeout_seconds=timeout_seconds))
        return Response(text, status, media_type="text/plain; version=0.0.4")

    return router


def speculation_routes(*, timeout_seconds: float) -> APIRouter:
    """What each worker reports of its drafts, and defects that the canary found; no request's text.

    Args:
        timeout_seconds: Longest wait for a worker.
    """
    router = APIRouter()
    reports = Coalesced[list[dict[str, Any]]]()

    @router.get("/speculation")
    async def show_speculation(request: Request) -> dict[str, Any]:
        services: Services = request.state.services
        workers = services.pool.workers

        async def ask(worker: Worker) -> dict[str, Any]:
            path = "/speculation"
            found = await worker.client.get_json(path, timeout_seconds=timeout_seconds)
            return {"engines": found.get("engines", [])}

        return {
            "workers": await reports.get(lambda: ask_all(workers, ask)),
            "canary": services.canary.defects.as_json(),
        }

    return router
