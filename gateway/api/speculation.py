"""`/speculation`: the gate, price, acceptance and step costs that each worker reports."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request

from gateway.api.state import Services
from gateway.errors import UpstreamError
from gateway.upstream import Worker


def speculation_routes(*, timeout_seconds: float) -> APIRouter:
    """The route; it needs no key, because it shows nothing about any request.

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
    """The report of one worker, or the error if it cannot be reached or has none."""
    try:
        found = await worker.client.get_json("/speculation", timeout_seconds=timeout_seconds)
    except UpstreamError as error:
        return {"worker": worker.id, "error": error.message}
    return {"worker": worker.id, "engines": found.get("engines", [])}
