"""Measures the workers in turn: in a round, every setting gets the same requests.

A worker reads each prompt before the measurement, so that only decoding is timed: prefill is the
same for every setting, and with many clients it is most of the time. A measurement ends as soon as
one client has no request left, since fewer running requests are another concurrency. Each setting
has its own tenant for each concurrency, so that it never drafts from another setting's answers.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.engine.counts import Counts, generated_tokens, own_time, running_requests
from bench.engine.fleet import running_workers
from bench.engine.measure import (
    Answerer,
    ask_in_turn,
    run_clients,
    warm_up,
)
from bench.engine.records import Ask, Pools
from bench.engine.worker import BenchWorker, WorkerError
from bench.gate.plan import Plan
from bench.gate.prompts import deal
from bench.gate.settings import Setting, settings_of, workers_of
from bench.rounds import rotated
from engine.config import EngineSettings
from engine.models import ResolvedModel
from loadtest.progress import say

_END_SECONDS = 20.0
"""Time limit for aborted requests to end."""

BySetting = dict[str, list[Counts]]
"""By setting, a round each."""


@dataclass(slots=True)
class Figures:
    """What was measured.

    Attributes:
        counts: By concurrency and workload.
        left_out: Concurrency, workload and round for which there was no time.
        idle_cores: Largest CPU use, in cores, of all workers that were not being measured.
    """

    counts: dict[int, dict[str, BySetting]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    idle_cores: float = 0.0


async def measure(
    plan: Plan, profile: EngineSettings, model: ResolvedModel, pools: Pools, ends_at: float
) -> Figures:
    """Measure every setting at every concurrency of a plan.

    Args:
        plan: What to measure.
        profile: Of the workers, but for their drafts.
        model: What they serve.
        pools: Recorded prompts.
        ends_at: `time.monotonic()` after which no workload is begun.

    Raises:
        DataError: There are too few prompts.
        WorkerError: A worker did not start, or failed a request.
    """
    dealt = {clients: deal(pools, plan, clients) for clients in plan.clients}
    settings = settings_of(plan)
    figures = Figures()
    async with running_workers(workers_of(profile), profile, model, Path()) as workers:
        for worker in workers:
            await warm_up(worker, max(plan.clients))
        # Finish a round before the next, so that missing time affects every workload alike.
        for number in range(plan.rounds):
            for index, clients in enumerate(plan.clients):
                for workload, rounds in dealt[clients].items():
                    if time.monotonic() > ends_at:
                        figures.left_out.append(f"{clients} {workload} {number + 1}")
                        continue
                    found, idle = await ask_in_turn(
                        rotated(workers, number + index),
                        partial(
                            _ask_worker,
                            settings=settings,
                            first=number,
                            asks=rounds[number],
                            clients=clients,
                        ),
                    )
                    figures.idle_cores = max(figures.idle_cores, idle)
                    cell = {name: counts for one in found.values() for name, counts in one.items()}
                    stored = figures.counts.setdefault(clients, {}).setdefault(workload, {})
                    for setting in settings:
                        stored.setdefault(setting.name, []).append(cell[setting.name])
                    say(f"{clients} clients, {workload}, round {number + 1}: {_headline(cell)}")
    return figures


class Asked:
    """A worker whose requests carry a setting."""

    def __init__(self, worker: BenchWorker, setting: Setting, tenant: str) -> None:
        self._worker = worker
        self._extra = {**setting.extra, "specgate_tenant": tenant}

    async def answer(self, ask: Ask) -> Mapping[str, Any]:
        """Answer a request."""
        return await self._worker.answer(ask, self._extra)


async def _ask_worker(
    worker: BenchWorker,
    *,
    settings: Sequence[Setting],
    first: int,
    asks: Sequence[Ask],
    clients: int,
) -> dict[str, Counts]:
    """Measure all settings of a worker."""
    reader = Asked(worker, Setting("read", "", {"specgate_mode": "off"}), "read")
    await run_clients(reader, [[replace(ask, most_tokens=1)] for ask in asks], clients)
    found = {}
    own = [setting for setting in settings if setting.worker == worker.method.name]
    for setting in rotated(own, first):
        asked = Asked(worker, setting, f"{setting.name} {clients}")
        before = await worker.metrics()
        busy = await run_busy(asked, asks, clients, worker.metrics)
        counts = Counts(seconds=busy.seconds)
        (seconds_before, steps_before), (seconds, steps) = own_time(before), own_time(busy.metrics)
        counts.own_seconds, counts.own_steps = seconds - seconds_before, steps - steps_before
        for answer in busy.answers:
            counts.take(answer)
        # Includes the tokens of aborted requests.
        counts.tokens = generated_tokens(busy.metrics) - generated_tokens(before)
        found[setting.name] = counts
        await _until_idle(worker)
    return found


@dataclass(frozen=True, slots=True)
class Busy:
    """Results of the time in which all clients were busy.

    Attributes:
        answers: Those that were complete.
        seconds: From the first request until a client had none left to send.
        metrics: The worker's, at that moment.
    """

    answers: Sequence[Mapping[str, Any]]
    seconds: float
    metrics: str


async def run_busy(
    worker: Answerer,
    asks: Sequence[Ask],
    clients: int,
    metrics: Callable[[], Awaitable[str]],
) -> Busy:
    """Send requests from clients that wait for each answer; stop when one has no request left.

    Raises:
        WorkerError: A request failed.
    """
    waiting = deque(asks)
    answers: list[Mapping[str, Any]] = []

    async def client() -> None:
        while waiting:
            answers.append(await worker.answer(waiting.popleft()))

    began = time.perf_counter()
    tasks = [asyncio.create_task(client()) for _ in range(clients)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        seconds, complete = time.perf_counter() - began, list(answers)
        return Busy(complete, seconds, await metrics())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_idle(worker: BenchWorker) -> None:
    """Wait until a worker has ended the requests that were aborted.

    Raises:
        WorkerError: It does not.
    """
    give_up_at = time.monotonic() + _END_SECONDS
    while running_requests(await worker.metrics()):
        if time.monotonic() > give_up_at:
            raise WorkerError(f"{worker.method.name}: still runs requests that were aborted")
        await asyncio.sleep(0.05)


def _headline(cell: Mapping[str, Counts]) -> str:
    return ", ".join(f"{name} {counts.tokens_per_second:.0f}" for name, counts in cell.items())
