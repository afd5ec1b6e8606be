"""`/metrics` for Prometheus; no key needed, as scrapers expect."""

from fastapi import APIRouter, Request, Response

from gateway.telemetry import GatewayMetrics


def metrics_routes(metrics: GatewayMetrics) -> APIRouter:
    """The route."""
    router = APIRouter()

    @router.get("/metrics")
    async def show_metrics(request: Request) -> Response:
        text, content_type = metrics.exposition(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    return router
