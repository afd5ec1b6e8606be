"""Asks the workers in turn: every setting gets the same requests in a round, and each round others.

Each prompt is read by its worker before it is measured, so that the time is that of decoding: what
is read of prompts is the same for every setting, and with many clients most of the time. Each
setting has a tenant of its own for each concurrency, so that it drafts from no other's answers.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.config import EngineSettings
from engine.models import ResolvedModel
from loadtest.progress import say
from tests.bench.engine.fleet import running_workers
from tests.bench.engine.measure import ask_in_turn, rotated, run_clients, warm_up
from tests.bench.engine.records import Ask, Pools
from tests.bench.engine.tally import Tally, own_time
from tests.bench.engine.worker import BenchWorker
from tests.bench.gate.plan import Plan
from tests.bench.gate.prompts import deal
from tests.bench.gate.settings import Setting, settings_of, workers_of

BySetting = dict[str, list[Tally]]
"""By setting, a round each."""


@dataclass(slots=True)
class Figures:
    """What was measured.

    Attributes:
        tallies: By concurrency and workload.
        left_out: Concurrency, workload and round for which there was no time.
        idle_cores: Most CPU cores that the workers burnt together which were not asked.
    """

    tallies: dict[int, dict[str, BySetting]] = field(default_factory=dict)
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
        # A round of all before the next: what there is no time for is then missing everywhere.
        for number in range(plan.rounds):
            for place, clients in enumerate(plan.clients):
                for workload, rounds in dealt[clients].items():
                    if time.monotonic() > ends_at:
                        figures.left_out.append(f"{clients} {workload} {number + 1}")
                        continue
                    found, idle = await ask_in_turn(
                        rotated(workers, number + place),
                        partial(
                            _ask_worker,
                            settings=settings,
                            first=number,
                            asks=rounds[number],
                            clients=clients,
                        ),
                    )
                    figures.idle_cores = max(figures.idle_cores, idle)
                    cell = {name: tally for one in found.values() for name, tally in one.items()}
                    kept = figures.tallies.setdefault(clients, {}).setdefault(workload, {})
                    for setting in settings:
                        kept.setdefault(setting.name, []).append(cell[setting.name])
                    say(f"{clients} clients, {workload}, round {number + 1}: {_headline(cell)}")
    return figures


class Asked:
    """A worker that is asked with a setting."""

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
) -> dict[str, Tally]:
    """Measure all settings that a worker is asked with."""
    reader = Asked(worker, Setting("read", "", {"specgate_mode": "off"}), "read")
    await run_clients(reader, [[replace(ask, most_tokens=1)] for ask in asks], clients)
    found = {}
    own = [setting for setting in settings if setting.worker == worker.method.name]
    for setting in turned(own, first):
        asked = Asked(worker, setting, f"{setting.name} {clients}")
        seconds_before, steps_before = own_time(await worker.metrics())
        began = time.perf_counter()
        answers = await run_clients(asked, [[ask] for ask in asks], clients)
        tally = Tally(seconds=time.perf_counter() - began)
        seconds, steps = own_time(await worker.metrics())
        tally.own_seconds, tally.own_steps = seconds - seconds_before, steps - steps_before
        for answer in answers:
            tally.take(answer)
        found[setting.name] = tally
    return found


def turned(settings: Sequence[Setting], number: int) -> Sequence[Setting]:
    """Let another setting be the first in each round."""
    begin = number % len(settings)
    return [*settings[begin:], *settings[:begin]]


def _headline(cell: Mapping[str, Tally]) -> str:
    return ", ".join(f"{name} {tally.tokens_per_second:.0f}" for name, tally in cell.items())
