"""`/speculation`: what each worker tells of its drafts: gate, price, acceptance, cost of a step."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request

from gateway.api.state import Services
from gateway.errors import UpstreamError
from gateway.upstream import Worker


def speculation_routes(*, timeout_seconds: float) -> APIRouter:
    """The route; no key needed, as for `/health/workers`: it tells nothing of any request.

    Args:
        timeout_seconds: Longest wait for a worker.
    """
    router = APIRouter()

    @router.get("/speculation")
    async def show_speculation(request: Request) -> dict[str, Any]:
        services: Services = request.state.services
        async with asyncio.TaskGroup() as group:
            asking = [
                group.create_task(_ask(worker, timeout_seconds)) for worker in services.pool.workers
            ]
        return {"workers": [task.result() for task in asking]}

    return router


async def _ask(worker: Worker, timeout_seconds: float) -> dict[str, Any]:
    """What one worker tells, or why it does not: it is gone, or has no drafts of ours."""
    try:
        found = await worker.client.get_json("/speculation", timeout_seconds=timeout_seconds)
    except UpstreamError as error:
        return {"worker": worker.id, "error": error.message}
    return {"worker": worker.id, "engines": found.get("engines", [])}
