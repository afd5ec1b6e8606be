"""`POST /canary/open`: lets sources draft again that the canary shut; for administrators."""

from typing import Any

import structlog
from fastapi import APIRouter, Request

from gateway.api.heads import check_administrator
from gateway.api.state import Services

log = structlog.get_logger(__name__)


def canary_routes() -> APIRouter:
    """The route."""
    router = APIRouter()

    @router.post("/canary/open")
    async def open_sources(request: Request, model: str | None = None) -> dict[str, Any]:
        caller = check_administrator(request)
        services: Services = request.state.services
        services.canary.defects.open(model)
        by = "local" if caller.key_id is None else f"key {caller.key_id}"
        log.info("canary_opened", model=model, by=by)
        return {"canary": services.canary.defects.as_json()}

    return router
