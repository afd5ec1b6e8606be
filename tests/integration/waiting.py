"""Wait until a condition holds."""

import asyncio
import time
from collections.abc import Callable

_POLL_SECONDS = 0.005


async def eventually(claim: Callable[[], bool], *, within_seconds: float = 3.0) -> float:
    """Wait until `claim` holds; returns the seconds that it took.

    Raises:
        AssertionError: It does not hold in time.
    """
    started = time.monotonic()
    while not claim():
        waited = time.monotonic() - started
        assert waited < within_seconds, f"not true within {within_seconds} s"
        await asyncio.sleep(_POLL_SECONDS)
    return time.monotonic() - started
