"""Measures the workers: first acceptance, then cost and speed with one request at a time."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.engine.counts import Counts
from bench.engine.fleet import running_workers
from bench.engine.measure import (
    ask_in_turn,
    fitting,
    measure_cell,
    run_clients,
    warm_up,
)
from bench.engine.methods import Method
from bench.engine.records import Pools, Session
from bench.engine.worker import BenchWorker, WorkerError
from bench.head.acceptance import Acceptance, acceptance_of
from bench.head.methods import ALWAYS
from bench.head.plan import HeadPlan
from bench.head.timing import Timing
from bench.rounds import rotated
from engine.config import EngineSettings
from engine.models import ResolvedModel
from loadtest.conversations import DataError
from loadtest.progress import say

_NO_PACKAGES = Path()  # they are for methods of other projects


@dataclass(frozen=True, slots=True)
class Cell:
    """One worker in one round.

    Attributes:
        head_pass: Of the draft head.
        step: Of decoding.
    """

    counts: Counts
    head_pass: Timing
    step: Timing


@dataclass(slots=True)
class HeadFigures:
    """What was measured.

    Attributes:
        acceptance: By kind of prompt.
        rounds: By method.
        left_out: Kinds and rounds for which there was no time.
        idle_cores: Largest CPU use, in cores, of all workers that were not being measured.
    """

    acceptance: dict[str, Acceptance] = field(default_factory=dict)
    rounds: list[Mapping[str, Cell]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    idle_cores: float = 0.0


@dataclass(frozen=True, slots=True)
class HeadBench:
    """What is measured with what.

    Attributes:
        methods: `none`, `head` and `head_always`.
        ends_at: `time.monotonic()` after which nothing more is begun.
    """

    plan: HeadPlan
    methods: Sequence[Method]
    settings: EngineSettings
    model: ResolvedModel
    pools: Pools
    ends_at: float


async def measure(bench: HeadBench) -> HeadFigures:
    """Measure acceptance, then cost and speed.

    Raises:
        DataError: There are no chat prompts, or none that the model has room for.
        WorkerError: A worker did not start, failed a request, or ran no head.
    """
    if not bench.pools.get("chat"):
        raise DataError("no chat prompts, on which cost and speed are measured")
    figures = HeadFigures()
    await _measure_acceptance(bench, figures)
    await _measure_rounds(bench, figures)
    return figures


def deal_rounds(sessions: Sequence[Session], plan: HeadPlan) -> list[Sequence[Session]]:
    """Deal prompts to rounds of one size, none twice; fewer rounds where there are not enough."""
    rounds = min(plan.rounds, len(sessions))
    size = min(plan.prompts_a_round, len(sessions) // rounds) if rounds else 0
    return [sessions[number * size : (number + 1) * size] for number in range(rounds)]


async def _measure_acceptance(bench: HeadBench, figures: HeadFigures) -> None:
    always = [method for method in bench.methods if method.name == ALWAYS]
    async with running_workers(always, bench.settings, bench.model, _NO_PACKAGES) as (worker,):
        await warm_up(worker, bench.plan.clients)
        for kind, sessions in bench.pools.items():
            if time.monotonic() > bench.ends_at:
                figures.left_out.append(kind)
                continue
            fit = await _fit(sessions[: bench.plan.prompts], worker)
            answers = await run_clients(worker, fit, bench.plan.clients)
            found = sum(map(acceptance_of, answers), Acceptance())
            figures.acceptance[kind] = found
            ratio = "none" if found.ratio is None else f"{found.ratio:.3f}"
            say(f"{kind}: acceptance ratio {ratio}, {found.requests} requests")
        if not Timing.of_head_pass(await worker.metrics()).count:
            # Its errors fail no request, so they would look like rejected drafts.
            raise WorkerError("the head never ran")


async def _measure_rounds(bench: HeadBench, figures: HeadFigures) -> None:
    async with running_workers(bench.methods, bench.settings, bench.model, _NO_PACKAGES) as workers:
        chat = await _fit(bench.pools["chat"], workers[0])
        if not chat:
            raise DataError("no chat prompt is within the model's length")
        await asyncio.gather(*(warm_up(worker, 1) for worker in workers))
        for number, sessions in enumerate(deal_rounds(chat, bench.plan)):
            if time.monotonic() > bench.ends_at:
                figures.left_out.append(f"round {number + 1}")
                continue
            cells, idle = await ask_in_turn(
                rotated(workers, number), partial(_measure_cell, sessions=sessions)
            )
            figures.idle_cores = max(figures.idle_cores, idle)
            figures.rounds.append(cells)
            speeds = (f"{name} {cell.counts.tokens_per_second:.1f}" for name, cell in cells.items())
            say(f"round {number + 1}/{bench.plan.rounds}: tokens/s: {', '.join(speeds)}")


async def _measure_cell(worker: BenchWorker, sessions: Sequence[Session]) -> Cell:
    before = await worker.metrics()
    counts = await measure_cell(worker, sessions, 1)
    after = await worker.metrics()
    head_pass = Timing.of_head_pass(after) - Timing.of_head_pass(before)
    step = Timing.of_step(after) - Timing.of_step(before)
    if not step.count:
        raise WorkerError(f"{worker.method.name}: no step of decoding was timed")
    if worker.method.name == ALWAYS and not head_pass.count:
        raise WorkerError(f"{worker.method.name}: the head did not run in a round")
    return Cell(counts, head_pass, step)


async def _fit(sessions: Sequence[Session], worker: BenchWorker) -> list[Session]:
    return [cut for session in sessions if (cut := await fitting(session, worker))]
