"""`/metrics` for Prometheus; it needs no key.

A worker that the gateway started listens on a Unix socket, which a scraper cannot reach, so
`/metrics/worker` forwards its page, at most once a second. Remote workers are scraped directly.
"""

from fastapi import APIRouter, Request, Response

from gateway.api.state import Services
from gateway.errors import NotFoundError
from gateway.telemetry import GatewayMetrics
from gateway.upstream import Coalesced


def metrics_routes(metrics: GatewayMetrics, *, timeout_seconds: float) -> APIRouter:
    """The routes.

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
