"""`/health`: whether the process lives, whether a worker is ready, and the state of each worker."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from gateway import __version__
from gateway.api.state import Services
from gateway.supervisor import Supervisor


def health_routes() -> APIRouter:
    """The routes; they need no key, because probes have none."""
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
            found[0]["supervisor"] = _supervised(services.supervisor)
        return {"workers": found}

    return router


def _supervised(supervisor: Supervisor) -> dict[str, Any]:
    return {
        "state": supervisor.state,
        "pid": supervisor.pid,
        "restarts": supervisor.restarts,
        "last_reason": supervisor.last_reason,
    }
