"""`/speculation`: the gate, price, acceptance and step costs that each worker reports.

All callers within a second share one report, because the route needs no key.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request

from gateway.api.state import Services
from gateway.errors import UpstreamError
from gateway.upstream import Coalesced, Worker

_MAX_CALLS = 32
"""To workers at a time."""


def speculation_routes(*, timeout_seconds: float) -> APIRouter:
    """The route; it needs no key, because it shows nothing about any request.

    Args:
        timeout_seconds: Longest wait for a worker.
    """
    router = APIRouter()
    reports = Coalesced[list[dict[str, Any]]]()

    @router.get("/speculation")
    async def show_speculation(request: Request) -> dict[str, Any]:
        services: Services = request.state.services
        workers = services.pool.workers
        return {"workers": await reports.get(lambda: _ask_all(workers, timeout_seconds))}

    return router


async def _ask_all(workers: Sequence[Worker], timeout_seconds: float) -> list[dict[str, Any]]:
    few = asyncio.Semaphore(_MAX_CALLS)

    async def ask(worker: Worker) -> dict[str, Any]:
        async with few:
            return await _ask(worker, timeout_seconds)

    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask(worker)) for worker in workers]
    return [task.result() for task in asking]


async def _ask(worker: Worker, timeout_seconds: float) -> dict[str, Any]:
    """The report of one worker, or the error if it cannot be reached or has none."""
    try:
        found = await worker.client.get_json("/speculation", timeout_seconds=timeout_seconds)
    except UpstreamError as error:
        return {"worker": worker.id, "error": error.message}
    return {"worker": worker.id, "engines": found.get("engines", [])}
