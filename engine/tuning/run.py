"""A tuning, top to bottom: measure each variant, simulate, confirm the best, write the report."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from engine.config import EngineSettings
from engine.errors import TrainingError
from engine.training import Writer, starting_writer
from engine.tuning.choice import finalists
from engine.tuning.findings import Findings, find
from engine.tuning.measure import (
    SETTLE_SECONDS,
    Measurement,
    deal,
    measure_alone,
    run_cell,
)
from engine.tuning.state import State
from engine.tuning.variants import Variant
from engine.tuning.workload import Workload

_MEASURING_SHARE = 0.5
_START_SECONDS = 25.0
"""What a start takes, until one was seen."""
_ASKING_SECONDS = (4.0, 60.0)
_MOST_SLOWER = 3.0
"""A variant that takes longer than the first one by more than this gets fewer prompts."""
_CELL_SECONDS = 6.0
_LEAST_REQUESTS = 3
_ROOM = 1.2
"""A worker goes on while others are measured if so many times its memory is free."""
_SEATS = 256
"""vLLM's own `max_num_seqs`."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done.

    Attributes:
        settings: The profile that is tuned.
        served: The name under which a worker serves the model.
        concurrency: Numbers of clients.
        minutes: For all calls together, starts of workers included.
        finalists: How many of the best are confirmed, if memory allows.
    """

    settings: EngineSettings
    served: str
    workload: Workload
    variants: Sequence[Variant]
    concurrency: Sequence[int]
    minutes: float
    finalists: int

    @property
    def seats(self) -> dict[int, int]:
        """By number of clients, how many of their requests run at once; the others wait."""
        most = int(str(self.settings.vllm.get("max_num_seqs") or _SEATS))
        return {clients: min(clients, most) for clients in self.concurrency}


class Tuning:
    """One call.

    Args:
        job: What is to be done.
        state: What earlier calls have done.
        say: Takes a line for people.
        clock: Returns seconds.
    """

    def __init__(
        self,
        job: Job,
        state: State,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._state = state
        self._say = say
        self._clock = clock
        self._noted = clock()
        self._start_seconds = _START_SECONDS
        self.failed: dict[str, str] = {}
        self._running: dict[str, Writer] = {}

    async def carry_out(self) -> None:
        """Measure what is missing, while there is time.

        Raises:
            TrainingError: A worker failed while it was asked.
        """
        async with AsyncExitStack() as stack:
            await self._measure_all(stack)
            found = self.findings()
            if found is not None:
                names = finalists(found.simulation, self._job.finalists)
                await self._confirm(names, found, stack)

    def findings(self) -> Findings | None:
        """Return what all calls have found; None if that is too little."""
        job = self._job
        cells = [self._cell(name) for name in self._state.names("cell-")]
        # Rounds of other finalists, before more was measured, cannot be compared with these.
        cells = [cell for cell in cells if set(cell) == set(cells[0])]
        return find(job.variants, self._measured(), job.workload.prompts, job.seats, cells)

    def note_time(self) -> None:
        """Add the time since the last note to that of all calls."""
        now = self._clock()
        self._state.spend(now - self._noted)
        self._noted = now

    @property
    def _left(self) -> float:
        """Seconds left, of all calls."""
        since = self._clock() - self._noted
        return 60.0 * self._job.minutes - self._state.spent_seconds - since

    def _measured(self) -> dict[str, Measurement]:
        names = [variant.name for variant in self._job.variants]
        found = {name: self._state.load(f"alone-{name}") for name in names}
        return {name: Measurement(**one) for name, one in found.items() if one is not None}

    def _cell(self, name: str) -> dict[str, dict[int, float]]:
        loaded = self._state.load(name) or {}
        return {
            variant: {int(at): goodput for at, goodput in by_seats.items()}
            for variant, by_seats in loaded.items()
        }

    async def _measure_all(self, stack: AsyncExitStack) -> None:
        measured = self._measured()
        missing = [one for one in self._job.variants if one.name not in measured]
        if measured:
            self._say(f"measured before: {', '.join(measured)}")
        for number, variant in enumerate(missing):
            left = self._left
            if left <= 0:
                rest = ", ".join(one.name for one in missing[number:])
                self._say(f"the time is up: not measured: {rest}")
                return
            seconds = self._asking_seconds(left / (len(missing) - number))
            self._say(f"{variant.name}: starting a worker, then up to {seconds:.0f} s of requests")
            try:
                await self._measure(variant, seconds, stack)
            except TrainingError as exc:
                self.failed[variant.name] = str(exc)
                self._say(f"{variant.name}: left out: {exc}")
            finally:
                self.note_time()

    def _asking_seconds(self, share: float) -> float:
        """How long a variant may be asked: others get the prompts of the first one."""
        first = next(iter(self._measured().values()), None)
        if first is not None:
            return _MOST_SLOWER * first.seconds
        least, most = _ASKING_SECONDS
        # A source with a forward pass is asked twice.
        return min(most, max(least, (_MEASURING_SHARE * share - self._start_seconds) / 1.5))

    async def _measure(self, variant: Variant, seconds: float, stack: AsyncExitStack) -> None:
        """Measure a variant; its worker goes on in the stack if there is room for others."""
        job = self._job
        measured = self._measured()
        # All answer the same prompts as the first one did.
        count = next((one.requests for one in measured.values()), None)
        has_costs = any(one.step_ms for one in measured.values())
        burst = 0 if has_costs else max(job.seats.values())
        began = self._clock()
        async with AsyncExitStack() as own:
            writer = await own.enter_async_context(self._worker(variant))
            self._start_seconds = self._clock() - began
            found = await measure_alone(
                writer, variant, job.workload.prompts, seconds=seconds, count=count, burst=burst
            )
            found.start_seconds = self._start_seconds
            self._state.save(f"alone-{variant.name}", found.as_json())
            if available_mib() > _ROOM * found.memory_mib:
                stack.push_async_exit(own.pop_all())
                self._running[variant.name] = writer
        self._say(
            f"{variant.name}: {found.goodput:.1f} tokens/s alone, {found.requests} requests, "
            f"{found.memory_mib:.0f} MiB"
        )

    async def _confirm(self, names: Sequence[str], found: Findings, stack: AsyncExitStack) -> None:
        """Measure the finalists in turn, round after round, with the same prompts."""
        variants = [variant for variant in self._job.variants if variant.name in names]
        variants = self._fitting(variants, found)
        row = sum(self._cell_seconds(found, load) for load in found.seats) * len(variants)
        starts = sum(variant.name not in self._running for variant in variants)
        if len(variants) < 2 or self._left < starts * self._start_seconds + row:
            self._say("no time to confirm the best; call again with more --minutes")
            return
        self._say(f"confirming {', '.join(variant.name for variant in variants)}")
        for variant in variants:
            if variant.name not in self._running:
                worker = self._worker(variant)
                self._running[variant.name] = await stack.enter_async_context(worker)
        writers = {variant.name: self._running[variant.name] for variant in variants}
        self.note_time()
        number = 0
        while self._left > row:
            await self._round(number, writers, found)
            number += 1
        self._say(f"confirmed in {number} rounds")

    async def _round(self, number: int, writers: Mapping[str, Writer], found: Findings) -> None:
        name = f"cell-{number:03}"
        done = self._cell(name)
        if set(done) != set(writers):
            done = {variant: {} for variant in writers}
        loads = {seats: load for load, seats in found.seats.items()}
        for turn, (seats, load) in enumerate(sorted(loads.items())):
            if all(seats in by_seats for by_seats in done.values()):
                continue
            count = self._requests(found, load)
            order = list(writers.items())
            first = (number + turn) % len(order)
            for variant, writer in order[first:] + order[:first]:
                prompts = self._job.workload.prompts
                dealt = deal(prompts, number * count, count, f"clients-{seats}")
                await asyncio.sleep(SETTLE_SECONDS)
                done[variant][seats] = (await run_cell(writer, dealt, seats)).goodput
            said = ", ".join(f"{variant} {done[variant][seats]:.1f}" for variant in writers)
            self._say(f"round {number + 1}, {load} clients: {said} tokens/s")
            if all(seats in by_seats for by_seats in done.values()):
                self._state.save(name, done)
                self.note_time()

    def _requests(self, found: Findings, load: int) -> int:
        """Requests of a cell: a few seconds' worth, and two at least for each client."""
        one = next(iter(found.measured.values()))
        fastest = max(by_load[load] for by_load in found.simulation.values())
        wanted = _CELL_SECONDS * fastest * one.requests / one.tokens
        seats = found.seats[load]
        return max(_LEAST_REQUESTS, 2 * seats, round(wanted))

    def _cell_seconds(self, found: Findings, load: int) -> float:
        one = next(iter(found.measured.values()))
        slowest = min(by_load[load] for by_load in found.simulation.values())
        return SETTLE_SECONDS + self._requests(found, load) * one.tokens / one.requests / slowest

    def _fitting(self, variants: Sequence[Variant], found: Findings) -> list[Variant]:
        """Return the first ones, the best first, that fit in memory together."""
        free, kept = available_mib(), list[Variant]()
        ranked = finalists(found.simulation, len(variants))
        for variant in sorted(variants, key=lambda one: ranked.index(one.name)):
            more = found.measured[variant.name].memory_mib
            free -= 0.0 if variant.name in self._running else more
            if free < 0:
                self._say(f"{variant.name}: not confirmed: there is not enough memory")
                continue
            kept.append(variant)
        return kept

    def _worker(self, variant: Variant) -> Any:
        engine: dict[str, JsonValue] = self._job.settings.model_dump(
            mode="json", exclude_unset=True, exclude={"host", "port", "uds", "speculation"}
        )
        speculation = variant.speculation(self._job.settings)
        given = speculation.get("suffix")
        suffix = given if isinstance(given, dict) else {}
        # Measured with an empty index, and nothing is left in that of the user.
        speculation["suffix"] = {
            **suffix,
            "warm_start": False,
        }
        engine["speculation"] = speculation
        log = self._state.folder / f"worker-{variant.name}.log"
        return starting_writer(engine, model=self._job.served, log=log)


def available_mib(meminfo: Path = Path("/proc/meminfo")) -> float:
    """Return the memory that can be had without swapping, in MiB."""
    for line in meminfo.read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 1024
    raise TrainingError(f"{meminfo}: no MemAvailable")
