"""Wait for something to become true, and fail with its name when it does not in time."""

import asyncio
import time
from collections.abc import Callable

_LOOK_SECONDS = 0.005


async def eventually(claim: Callable[[], bool], *, within_seconds: float = 3.0) -> float:
    """Wait until `claim` holds; returns how many seconds that took.

    Raises:
        AssertionError: It did not hold in time.
    """
    started = time.monotonic()
    while not claim():
        waited = time.monotonic() - started
        assert waited < within_seconds, f"not true within {within_seconds} s"
        await asyncio.sleep(_LOOK_SECONDS)
    return time.monotonic() - started
