"""A callback that keeps the loop busy is measured; one that sleeps elsewhere is not."""

import asyncio
import io
import time

from bench.fuzz.gateway import LoopProbe

_BUSY_SECONDS = 0.05


def _keep_busy() -> None:
    until = time.thread_time() + _BUSY_SECONDS
    while time.thread_time() < until:
        pass


async def test_a_busy_callback_is_a_block() -> None:
    out = io.StringIO()
    LoopProbe(asyncio.get_running_loop(), out)

    _keep_busy()
    await asyncio.sleep(0.02)

    blocks = [float(line.split()[1]) for line in out.getvalue().splitlines()]
    assert max(blocks) > 1e3 * _BUSY_SECONDS / 2


async def test_time_without_the_processor_is_no_block() -> None:
    out = io.StringIO()
    LoopProbe(asyncio.get_running_loop(), out)

    time.sleep(_BUSY_SECONDS)  # noqa: ASYNC251  # as if another process had run
    await asyncio.sleep(0.02)

    # What the loop itself computes meanwhile, such as a garbage collection, may be one.
    blocks = [float(line.split()[1]) for line in out.getvalue().splitlines()]
    assert sum(blocks) < 1e3 * _BUSY_SECONDS / 2
