"""What a tuning has found: from the finished measurements, and nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from engine.simulation import Curve
from engine.tuning.choice import Goodput, Rounds, best_by_load, choose, medians
from engine.tuning.measure import Measurement
from engine.tuning.replay import (
    HeadTrace,
    Recording,
    head_trace,
    measured_curve,
    record,
    simulated,
    typical_head,
    typical_pass,
    with_prompts,
)
from engine.tuning.variants import Variant
from engine.tuning.workload import Prompt


@dataclass(frozen=True, slots=True)
class About:
    """What a report is about.

    Attributes:
        model: As in the settings.
        workload: Name of the file.
        prompts: How many it has.
        processor: Of this machine.
        date: Of the report.
        profile: That was started from; None: the defaults.
    """

    model: str
    workload: str
    prompts: int
    processor: str
    date: str
    profile: Path | None


@dataclass(frozen=True, slots=True)
class Findings:
    """The figures of a report.

    Attributes:
        order: Names of the measured variants, the simplest first.
        measured: By name.
        seats: By concurrency that was asked for, how many requests run at once.
        simulation: Goodput of every variant by concurrency.
        rounds: Confirmed goodput of the finalists; empty if there was no time.
        chosen: The recommended variant.
        scale: Simulated over measured goodput of one client, by name. Simulated figures are divided
            by its geometric mean, not by their own: variants are measured at different times, and
            other load in one of them would decide.
        head_brings: Estimated goodput with a head of typical quality over that of the index alone,
            by concurrency; None if a head or another drafter is at hand.
    """

    order: Sequence[str]
    measured: Mapping[str, Measurement]
    seats: Mapping[int, int]
    simulation: Goodput
    rounds: Rounds
    chosen: str
    scale: Mapping[str, float]
    head_brings: Mapping[int, float] | None

    @property
    def confirmed(self) -> Goodput:
        """Medians over the rounds."""
        return medians(self.rounds)

    @property
    def count_rounds(self) -> int:
        """How often the finalists were confirmed at every concurrency."""
        counts = [len(one) for by_load in self.rounds.values() for one in by_load.values()]
        return min(counts, default=0)

    @property
    def judged(self) -> Goodput:
        """What the choice is made from: confirmed figures, or simulated ones without any."""
        return self.confirmed or self.simulation

    def is_best_at(self) -> Mapping[int, str]:
        """The fastest variant by concurrency."""
        return best_by_load(self.judged)


@dataclass(frozen=True, slots=True)
class Simulation:
    """The measured workload, ready to be replayed."""

    measured: Mapping[str, Measurement]
    recording: Recording
    curve: Curve

    @classmethod
    def of(
        cls, measured: Mapping[str, Measurement], prompts: Sequence[Prompt]
    ) -> "Simulation | None":
        """Prepare it; None if no worker with a gate was measured, or there is only one variant."""
        if len(measured) < 2 or not any(one.step_ms for one in measured.values()):
            return None
        longest = max(measured.values(), key=lambda one: len(one.answers))
        asked = [prompt.tokens for prompt in prompts[: len(longest.answers)]]
        curve = measured_curve(list(measured.values()), [])
        return cls(measured, record(asked, longest.answers), curve)

    def goodput(self, variant: Variant, seats: Sequence[int]) -> dict[int, float]:
        """Return tokens a second by requests at once; one alone is always among them."""
        head = None if variant.forward is None else self._head(variant)
        curve = self._curve(variant)
        decoding = {
            at: simulated(variant, self.recording, head, curve, at) for at in sorted({1, *seats})
        }
        # Other load on the machine only makes prompts slower.
        prefill = min(one.prefill_per_token for one in self.measured.values())
        return with_prompts(decoding, prefill)

    def head_brings(self, seats: Sequence[int]) -> dict[int, float]:
        """Return what a typical head would bring over the index alone, by requests at once."""
        index, both = Variant(("suffix",)), Variant(("suffix", "head"))
        head, curve = typical_head(self.recording.lengths), typical_pass(self.curve)
        return {
            at: simulated(both, self.recording, head, curve, at)
            / simulated(index, self.recording, None, self.curve, at)
            for at in seats
        }

    def _curve(self, variant: Variant) -> Curve:
        """Return what its steps cost; vLLM's own drafter drafts inside of them."""
        alike = [
            one
            for name, one in self.measured.items()
            if one.step_ms and ("native" in name) == ("native" in variant.sources)
        ]
        passes = self.measured[variant.name].pass_ms
        return measured_curve(alike or list(self.measured.values()), passes)

    def _head(self, variant: Variant) -> HeadTrace:
        one = self.measured[variant.name]
        # A greedy answer is the same whatever drafts, so its steps fit the recorded answers.
        usable = [
            steps for steps, answer in zip(one.trace, one.answers, strict=False) if len(answer) > 1
        ]
        return head_trace(
            self.recording.lengths,
            usable,
            max(1, one.trace_tokens),
            states_confidence=variant.forward == "head",
        )


def find(
    variants: Sequence[Variant],
    measured: Mapping[str, Measurement],
    prompts: Sequence[Prompt],
    seats: Mapping[int, int],
    cells: Sequence[Mapping[str, Mapping[int, float]]],
) -> Findings | None:
    """Work out the figures of a report; None if too little was measured.

    Args:
        variants: All that are compared, the simplest first.
        measured: By name.
        prompts: Of the workload.
        seats: By concurrency, how many requests run at once.
        cells: Confirmed goodput, a round each, by variant and requests at once.
    """
    simulation = Simulation.of(measured, prompts)
    if simulation is None:
        return None
    there = [variant for variant in variants if variant.name in measured]
    asked = sorted(set(seats.values()))
    goodput = {variant.name: simulation.goodput(variant, asked) for variant in there}
    scale = {name: by_seats[1] / measured[name].goodput for name, by_seats in goodput.items()}
    common = geometric_mean(scale.values())
    by_name = {
        name: {load: by_seats[at] / common for load, at in seats.items()}
        for name, by_seats in goodput.items()
    }
    rounds = _rounds(cells, seats)
    order = [variant.name for variant in there]
    brings = None
    if all(variant.forward is None for variant in variants):
        found = simulation.head_brings(asked)
        brings = {load: found[at] for load, at in seats.items()}
    judged = medians(rounds) or by_name
    chosen = choose(judged, rounds, order)
    return Findings(order, measured, seats, by_name, rounds, chosen, scale, brings)


def _rounds(
    cells: Sequence[Mapping[str, Mapping[int, float]]], seats: Mapping[int, int]
) -> dict[str, dict[int, list[float]]]:
    """Collect what was confirmed at every concurrency; nothing if one of them is missing."""
    names = list(cells[0]) if cells else []
    found = {
        name: {
            load: [cell[name][at] for cell in cells if name in cell and at in cell[name]]
            for load, at in seats.items()
        }
        for name in names
    }
    is_whole = all(values for by_load in found.values() for values in by_load.values())
    return found if is_whole else {}
