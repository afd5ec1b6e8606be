"""Stored responses: show one, list its input, delete it. Each needs the key of its tenant."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from gateway.api.asgi import presented_key
from gateway.api.state import Services
from gateway.errors import UnsupportedParameterError

_JSON = "application/json"


def responses_routes() -> APIRouter:
    """The routes below `/v1/responses/`."""
    router = APIRouter()

    @router.get("/v1/responses/{id}")
    async def show_response(request: Request, id: str, stream: bool = False) -> Response:
        services, tenant = _caller(request)
        if stream:
            raise UnsupportedParameterError("A stored response cannot be streamed.", param="stream")
        return Response(await services.conversations.show(tenant, id), media_type=_JSON)

    @router.delete("/v1/responses/{id}")
    async def delete_response(request: Request, id: str) -> dict[str, Any]:
        services, tenant = _caller(request)
        await services.conversations.delete(tenant, id)
        return {"id": id, "object": "response", "deleted": True}

    @router.get("/v1/responses/{id}/input_items")
    async def list_input_items(
        request: Request,
        id: str,
        after: str | None = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        order: Literal["asc", "desc"] = "desc",
    ) -> Response:
        services, tenant = _caller(request)
        page = await services.conversations.show_items(
            tenant, id, after=after, limit=limit, order=order
        )
        return Response(page, media_type=_JSON)

    return router


def _caller(request: Request) -> tuple[Services, str]:
    services: Services = request.state.services
    caller = services.admission.recognise(presented_key(dict(request.headers.raw)))
    return services, caller.tenant
