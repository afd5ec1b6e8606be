"""Limits of a run: it ends when it lasts too long or takes too much memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil

from loadtest.memory import family_bytes

_LOOK_SECONDS = 5.0


class LimitError(Exception):
    """A bound was reached; the message says which."""


@asynccontextmanager
async def bounded(*, seconds: float, most_bytes: int) -> AsyncIterator[None]:
    """Run a block under bounds; it is cancelled when one is reached.

    Args:
        seconds: Longest time.
        most_bytes: Most memory of this process and all below it.

    Raises:
        LimitError: One was reached.
    """
    reason = f"not done in {seconds:.0f} s"

    async def watch(bound: asyncio.Timeout) -> None:
        nonlocal reason
        own = psutil.Process()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            taken = await asyncio.to_thread(family_bytes, own)
            if taken > most_bytes:
                reason = f"{taken / 2**30:.1f} GiB of memory are more than is allowed"
                bound.reschedule(asyncio.get_running_loop().time())
                return

    try:
        async with asyncio.timeout(seconds) as bound:
            watching = asyncio.create_task(watch(bound), name="memory")
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError as error:
        if not bound.expired():
            raise
        raise LimitError(reason) from error
