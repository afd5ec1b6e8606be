"""Waits until servers are idle, so that none takes time of the one that is measured next."""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

# vLLM's processes spin for a second after their last message (`SpinCondition`, vLLM 0.32), and
# would take the next worker's time.
_SETTLED_CORES = 0.1
_LOOK_SECONDS = 0.25
_SETTLE_SECONDS = 4.0


class HasCpuTime(Protocol):
    """A process, or a server of several."""

    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far."""


async def settle(servers: Sequence[HasCpuTime]) -> None:
    """Wait until all servers are idle, up to four seconds."""
    give_up_at = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < give_up_at:
        before = cpu_seconds(servers)
        await asyncio.sleep(_LOOK_SECONDS)
        if cpu_seconds(servers) - before < _SETTLED_CORES * _LOOK_SECONDS:
            return


def cpu_seconds(servers: Sequence[HasCpuTime]) -> float:
    """CPU time of all servers so far."""
    return sum(server.cpu_seconds() for server in servers)
