"""Measures the workers in turn: in a round, every method gets the same requests.

Workers go on learning over the rounds. No worker gets a prompt twice, since an index that has seen
the answer would copy it; so each batch size has its own workers.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bench.engine.counts import Counts, decode_time, fallbacks, own_time
from bench.engine.fleet import STARTING_SECONDS, running_workers
from bench.engine.idle import cpu_seconds, settle
from bench.engine.methods import Method
from bench.engine.plan import Plan
from bench.engine.records import Ask, Pools, Session
from bench.engine.worker import BenchWorker, WorkerError
from bench.engine.workloads import deal, wants_of
from bench.rounds import rotated
from engine.config import EngineSettings
from engine.models import ResolvedModel
from loadtest.progress import say

_WARM_UP_TOKENS = 24

_Cell = TypeVar("_Cell")


@dataclass(slots=True)
class BatchFigures:
    """What was measured at one batch size.

    Attributes:
        counts: By workload and method, a round each.
        sessions: By workload, sessions of a round.
        left_out: Workloads for which there was no time.
        idle_cores: Largest CPU use, in cores, of all workers that were not being measured.
    """

    counts: dict[str, dict[str, list[Counts]]] = field(default_factory=dict)
    sessions: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    idle_cores: float = 0.0


@dataclass(frozen=True, slots=True)
class Bench:
    """What is the same at every batch size.

    Attributes:
        packages: Where arctic-inference is.
        ends_at: `time.monotonic()` after which no workload is begun.
    """

    plan: Plan
    methods: Sequence[Method]
    settings: EngineSettings
    model: ResolvedModel
    packages: Path
    pools: Pools
    ends_at: float


async def measure(bench: Bench, batch: int) -> BatchFigures:
    """Measure every method on every workload with `batch` clients at once.

    Raises:
        WorkerError: A worker did not start, or failed a request.
    """
    if time.monotonic() + STARTING_SECONDS > bench.ends_at:
        return BatchFigures(left_out=list(wants_of(bench.plan, batch)))
    async with running_workers(
        bench.methods, bench.settings, bench.model, bench.packages
    ) as workers:
        pools = {
            kind: [cut for s in sessions if (cut := await fitting(s, workers[0]))]
            for kind, sessions in bench.pools.items()
        }
        slices = deal(pools, bench.plan, batch)
        for worker in workers:
            await warm_up(worker, batch)
        figures = BatchFigures(
            sessions={workload: len(rounds[0]) for workload, rounds in slices.items()},
        )
        for number in range(bench.plan.rounds):
            for index, (workload, rounds) in enumerate(slices.items()):
                if time.monotonic() > bench.ends_at:
                    figures.left_out.append(workload)
                    continue
                by_method = figures.counts.setdefault(
                    workload, {worker.method.name: [] for worker in workers}
                )
                cells, idle = await ask_in_turn(
                    rotated(workers, number + index),
                    partial(measure_cell, sessions=rounds[number], batch=batch),
                )
                figures.idle_cores = max(figures.idle_cores, idle)
                for name, counts in cells.items():
                    by_method[name].append(counts)
                say(
                    f"batch {batch}, round {number + 1}/{bench.plan.rounds}: {workload}: "
                    + _headline(by_method)
                )
    return figures


class Answerer(Protocol):
    """What clients send to: a `BenchWorker`, or a test's fake."""

    async def answer(self, ask: Ask) -> Mapping[str, Any]:
        """Answer a request."""


async def run_clients(
    worker: Answerer, sessions: Sequence[Session], clients: int
) -> Sequence[Mapping[str, Any]]:
    """Send sessions from clients that wait for each answer before the next request."""
    waiting = deque(sessions)
    answers: list[Mapping[str, Any]] = []

    async def client() -> None:
        while waiting:
            for ask in waiting.popleft():
                answers.append(await worker.answer(ask))

    await asyncio.gather(*(client() for _ in range(clients)))
    return answers


async def ask_in_turn(
    workers: Sequence[BenchWorker], ask: Callable[[BenchWorker], Awaitable[_Cell]]
) -> tuple[dict[str, _Cell], float]:
    """Call `ask` with one worker after another, each time once all of them are idle.

    Returns:
        Results of `ask` by method; largest CPU use, in cores, of all workers but the one asked.

    Raises:
        WorkerError: Speculation failed in a worker, so it no longer does what is measured.
    """
    cells: dict[str, _Cell] = {}
    idle_cores = 0.0
    for worker in workers:
        await settle(workers)
        others = [other for other in workers if other is not worker]
        before, began = cpu_seconds(others), time.perf_counter()
        cells[worker.method.name] = await ask(worker)
        idle = (cpu_seconds(others) - before) / (time.perf_counter() - began)
        idle_cores = max(idle_cores, idle)
        if failed := fallbacks(await worker.metrics()):
            raise WorkerError(f"{worker.method.name}: speculation failed {failed} times")
    return cells, idle_cores


async def measure_cell(worker: BenchWorker, sessions: Sequence[Session], batch: int) -> Counts:
    """Send one worker the sessions of a round by `batch` clients."""
    before = await worker.metrics()
    began = time.perf_counter()
    answers = await run_clients(worker, sessions, batch)
    counts = Counts(seconds=time.perf_counter() - began)
    after = await worker.metrics()
    (seconds_before, steps_before), (seconds, steps) = own_time(before), own_time(after)
    counts.own_seconds, counts.own_steps = seconds - seconds_before, steps - steps_before
    counts.decode_seconds = decode_time(after) - decode_time(before)
    for answer in answers:
        counts.take(answer)
    return counts


async def fitting(session: Session, worker: BenchWorker) -> Session:
    """Cut a session before the first request that exceeds the model's length."""
    for index, ask in enumerate(session):
        if not await worker.fits(ask):
            return session[:index]
    return session


async def warm_up(worker: Answerer, batch: int) -> None:
    """Send requests from `batch` clients at once, so that first-time work is done before."""
    asks = [
        Ask([{"role": "user", "content": f"Count from {start} on."}], _WARM_UP_TOKENS)
        for start in range(1, batch + 1)
    ]
    await run_clients(worker, [[ask] for ask in asks], batch)


def _headline(methods: Mapping[str, Sequence[Counts]]) -> str:
    return ", ".join(
        f"{name} {rounds[-1].tokens_per_second:.0f}" for name, rounds in methods.items()
    )
