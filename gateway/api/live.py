"""`GET /live`: the last quarter of an hour, for operators (ADR 43)."""

from fastapi import APIRouter, Request, Response

from gateway.api.state import Services


def live_routes() -> APIRouter:
    """The route; it needs no key, like `/metrics`."""
    router = APIRouter()

    @router.get("/live")
    async def show_live(request: Request) -> Response:
        services: Services = request.state.services
        headers = {"cache-control": "no-store"}
        return Response(services.live.page(), media_type="application/json", headers=headers)

    return router
