"""How much slower a worker answers while a head is being trained beside it, with a core free.

The worker has one thread and records; the trainer is the worker's own, on traffic recorded earlier.
It is stopped and continued in turns, so that a slow minute of the machine affects both.
"""

import asyncio
import contextlib
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil

from bench.drift.traffic import client_of, worker_on
from bench.rounds import Summary, summary_of
from engine.traffic import AdaptFolder
from loadtest.progress import say

_ANSWER_TOKENS = 200
_LEAST_SHARE = 0.3
"""Of a core, which the trainer must have had in its turns; it takes half of one."""

_POLL_SECONDS = 0.2
_START_SECONDS = 60.0


class SlowdownError(Exception):
    """The trainer did not train while it was measured."""


async def measure_slowdown(recorded: Path, short: Path, *, turns: int, answers: int) -> Summary:
    """Return the time of an answer beside the trainer over its time alone, minus 1.

    Args:
        recorded: An adapt folder with traffic; not changed.
        short: An empty folder with a short path.
        turns: Pairs of turns.
        answers: Answers of a turn, one after the other.

    Raises:
        StartError: The worker did not start.
        httpx.HTTPError: A request failed.
        SlowdownError: The trainer did not train while it was measured.
    """
    copy = AdaptFolder(shutil.copytree(recorded, short / "copy", symlinks=True))
    ratios: list[float] = []
    worker = worker_on(short, short / "own", threads=1)
    await worker.start()
    try:
        async with client_of(short) as client:
            await _answer(client, answers)  # warms up
            for turn in range(turns):
                # Each pair repeats its prompts, and every other one begins with the trainer.
                spent = {}
                for trains in (True, False) if turn % 2 else (False, True):
                    spent[trains] = await _turn(client, copy, answers, trains=trains)
                ratios.append(spent[True] / spent[False] - 1.0)
                say(f"beside the trainer: {spent[True]:.2f} s, alone: {spent[False]:.2f} s")
    finally:
        await worker.stop()
    found = summary_of(ratios)
    assert found is not None
    return found


async def _turn(
    client: httpx.AsyncClient, folder: AdaptFolder, answers: int, *, trains: bool
) -> float:
    if not trains:
        return await _answer(client, answers)
    async with _training(folder) as trainer:
        before, began = _cpu_seconds(trainer), time.perf_counter()
        seconds = await _answer(client, answers)
        share = (_cpu_seconds(trainer) - before) / (time.perf_counter() - began)
    if share < _LEAST_SHARE:
        raise SlowdownError(f"the trainer had only {share:.0%} of a core")
    return seconds


async def _answer(client: httpx.AsyncClient, answers: int) -> float:
    began = time.perf_counter()
    for number in range(answers):
        answer = await client.post(
            "/v1/chat/completions",
            json={
                "messages": [{"role": "user", "content": f"Write a story about number {number}."}],
                "max_tokens": _ANSWER_TOKENS,
                "temperature": 0.0,
                "ignore_eos": True,
                # The index would know the answer the second time.
                "vllm_xargs": {"specgate_mode": "off", "specgate_adapt": 1},
                "cache_salt": str(began),
            },
        )
        answer.raise_for_status()
    return time.perf_counter() - began


@contextlib.asynccontextmanager
async def _training(folder: AdaptFolder) -> AsyncIterator[psutil.Process]:
    """Run the trainer as a worker would, from when it computes until the end of the block."""
    (folder.root / "status.json").unlink(missing_ok=True)  # all that was recorded is new
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "engine.training.adapt", str(folder.root), "--die-with-parent"),
        stdin=asyncio.subprocess.DEVNULL,
    )
    trainer = psutil.Process(process.pid)
    try:
        # Importing torch takes some seconds of CPU time; then it reads, and computes.
        give_up_at = time.monotonic() + _START_SECONDS
        while trainer.memory_info().rss < 1 << 30:
            if time.monotonic() > give_up_at:
                raise SlowdownError("the trainer did not begin")
            await asyncio.sleep(_POLL_SECONDS)
        yield trainer
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def _cpu_seconds(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)
