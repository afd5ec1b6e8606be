"""Ask several workers the same at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gateway.errors import UpstreamError
from gateway.upstream import Worker

_MAX_CALLS = 32
"""To workers at a time."""


async def ask_all(
    workers: Sequence[Worker], ask: Callable[[Worker], Awaitable[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return each worker's answer with its name; the error where it cannot be had.

    Args:
        workers: Whom to ask.
        ask: Asks one of them; may raise `UpstreamError`.
    """
    few = asyncio.Semaphore(_MAX_CALLS)

    async def ask_one(worker: Worker) -> dict[str, Any]:
        async with few:
            try:
                return {"worker": worker.id, **await ask(worker)}
            except UpstreamError as error:
                return {"worker": worker.id, "error": error.message}

    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask_one(worker)) for worker in workers]
    return [task.result() for task in asking]
