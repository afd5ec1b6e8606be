"""The workers of a batch size: memory is checked, then they start, two at a time."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from bench.engine.methods import Method, write_profile
from bench.engine.plan import KV_GIB
from bench.engine.worker import BenchWorker, WorkerError
from engine.config import EngineSettings
from engine.models import ResolvedModel
from loadtest.progress import say

# What a worker's processes take beside weights and KV space: with SmolLM2 2.7 to 2.9 GiB in all.
_OTHER_GIB = 1.6
_AT_ONCE = 2  # a start is one thread's work for most of its time
_GIB = 1 << 30
STARTING_SECONDS = 60.0
"""What it takes to start four workers on two idle cores."""


@asynccontextmanager
async def running_workers(
    methods: Sequence[Method], settings: EngineSettings, model: ResolvedModel, packages: Path
) -> AsyncIterator[Sequence[BenchWorker]]:
    """Start a worker for each method; all are stopped in the end, also after an error.

    Raises:
        WorkerError: There is not enough memory for all, or one did not start.
    """
    check_memory(len(methods), model, available=psutil.virtual_memory().available)
    with tempfile.TemporaryDirectory(prefix="sg-bench-") as name:
        folder = Path(name)
        workers = []
        for method in methods:
            profile = folder / f"{method.name}.yaml"
            write_profile(profile, settings, method)
            workers.append(BenchWorker(method, folder, profile, packages=packages))
        try:
            for begin in range(0, len(workers), _AT_ONCE):
                await _start(workers[begin : begin + _AT_ONCE])
            yield workers
        finally:
            await asyncio.gather(*(worker.stop() for worker in workers))


async def _start(workers: Sequence[BenchWorker]) -> None:
    # All are waited for, so that none is still starting when they are stopped.
    starts = (worker.start() for worker in workers)
    for error in await asyncio.gather(*starts, return_exceptions=True):
        if error is not None:
            raise error
    say(f"{' and '.join(worker.method.name for worker in workers)} ready")


def check_memory(workers: int, model: ResolvedModel, *, available: int) -> None:
    """Check that there is enough memory for the workers.

    Args:
        available: Bytes that can be had without swapping.

    Raises:
        WorkerError: They are fewer than the workers will take.
    """
    weights = sum(path.stat().st_size for path in Path(model.source).glob("*.safetensors"))
    needed = workers * (weights / _GIB + KV_GIB + _OTHER_GIB)
    if needed > available / _GIB:
        raise WorkerError(
            f"{workers} workers take {needed:.1f} GiB of memory and {available / _GIB:.1f} are "
            "free; stop something, or compare fewer methods: METHODS=none,suffix,..."
        )
