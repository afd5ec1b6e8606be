"""`/v1/models`: what all workers serve, without their file paths."""

from typing import Any

from fastapi import APIRouter, Request

from gateway.api.asgi import presented_key
from gateway.api.state import Services
from gateway.errors import ModelNotFoundError, NoHealthyWorkerError, excerpt


def models_routes() -> APIRouter:
    """The routes; they need a key if the gateway has keys."""
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
