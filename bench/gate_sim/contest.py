"""Runs every rule under the same conditions and records how fast each was."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.gate_sim.oracle import Oracle
from bench.gate_sim.thresholds import SGLang, TensorRT
from bench.rounds import Json, Summary
from engine.simulation.arrays import Floats, Ints
from engine.simulation.engine import Record, World, simulate
from engine.simulation.rule import Rule, TimedRule
from engine.simulation.schedules import Schedule, Scheduled, Source, fixed, vllm_schedule
from engine.simulation.texts import HEAD

FIXED_TOKENS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32)
_BOTH_TOKENS = (4, 16, 32)

Policy = Callable[[World, int, Source], TimedRule]
"""Makes the rule under test for a world, so many lanes, and the sources that there are."""
Records = Mapping[str, Record]
"""By rule; (steps, seeds) each."""


@dataclass(frozen=True, slots=True)
class Result:
    """How fast each rule was, and what the rule under test did.

    Attributes:
        speeds: By rule, tokens a second of a request; (seeds,).
        drafted_per_step: Draft tokens.
        accepted_ratio: Accepted over drafted tokens; None where nothing was drafted.
        head_share: Of the steps, those in which the head ran.
        policy_ns: Of each step that the policy decided: sequences and its own time; (n, 2).
    """

    speeds: Mapping[str, Floats]
    drafted_per_step: float
    accepted_ratio: float | None
    head_share: float
    policy_ns: Ints

    def best_fixed(self) -> str:
        """The name of the fastest fixed setting, no drafts being one of them."""
        names = [name for name in self.speeds if is_fixed(name)]
        return max(names, key=lambda name: float(self.speeds[name].mean()))

    def ratio(self, name: str, other: str) -> Floats:
        """One rule's speed over another's, seed by seed; (seeds,)."""
        return np.asarray(self.speeds[name] / self.speeds[other])

    def regret(self) -> Floats | None:
        """What is missing to the oracle, of its speed; (seeds,). None where there is no oracle."""
        return 1.0 - self.ratio("specgate", "oracle") if "oracle" in self.speeds else None

    def as_json(self) -> Json:
        """Every figure of this run; ratios are medians over seeds, with [min, max]."""
        best, regret = self.best_fixed(), self.regret()
        return {
            "ratio_to_none": figure(self.ratio("specgate", "none")),
            "ratio_to_best_fixed": figure(self.ratio("specgate", best)),
            "regret_to_oracle": None if regret is None else figure(regret),
            "best_fixed": best,
            "tokens_per_second": {
                name: float(np.median(speed)) for name, speed in self.speeds.items()
            },
            "drafted_per_step": self.drafted_per_step,
            "accepted_ratio": self.accepted_ratio,
            "head_share": self.head_share,
        }


def result_of(records: Records, policy: TimedRule, *, begin: int, end: int) -> Result:
    """Sum up the steps of every rule.

    Args:
        records: One of them is `specgate`.
        policy: The rule that it is of.
        begin: Tokens after which speed counts.
        end: Tokens up to which it counts.
    """
    ours = records["specgate"]
    return Result(
        {name: record.speed(begin, end) for name, record in records.items()},
        drafted_per_step=float(ours.drafted.mean()),
        accepted_ratio=_accepted(ours),
        head_share=float(ours.head_passes.mean()),
        policy_ns=np.array([policy.sequences, policy.spent_ns]).T,
    )


def stage_ratio(records: Records, name: str, other: str, begin: int, end: int) -> Floats:
    """One rule's speed over another's between two marks, in tokens; (seeds,)."""
    ours, theirs = (records[rule].speed(begin, end) for rule in (name, other))
    return np.asarray(ours / theirs)


def hold(
    world: World, source: Source, policy: Policy, *, seeds: int, begin: int
) -> tuple[Records, Result]:
    """Run all rules with the same requests, arrivals and noise.

    Args:
        world: Machine, texts and course. In an open loop there is no oracle: what time is worth
            there depends on the arrivals after this step.
        source: Where drafts may come from.
        policy: Makes the rule under test, which goes by the name of `specgate`.
        seeds: How many there are.
        begin: Tokens after which speed counts.

    Returns:
        Every step of every rule, and what they sum up to.
    """
    schedules = [*fixed_settings(source), vllm_schedule(world.curve, _one(source))]
    records: dict[str, Record] = _schedules(world, schedules, seeds)
    specgate = policy(world, seeds, source)
    learning: dict[str, Rule] = {
        "sglang": SGLang(seeds, _one(source)),
        "tensorrt": TensorRT(seeds, _one(source)),
        "specgate": specgate,
    }
    if world.course.per_second is None:
        learning["oracle"] = Oracle(world, seeds, source)
    lanes = np.arange(seeds)
    for name, rule in learning.items():
        records[name] = simulate(world, rule, lanes)
    return records, result_of(records, specgate, begin=begin, end=world.course.tokens)


def fixed_settings(source: Source) -> list[Schedule]:
    """No drafts, and every fixed number of tokens of every source that there is."""
    settings = [fixed(0, source)]
    if source != "head":
        settings += [fixed(tokens, "suffix") for tokens in FIXED_TOKENS]
    if source != "suffix":
        settings += [fixed(tokens, "head") for tokens in range(1, HEAD + 1)]
    if source == "both":
        settings += [fixed(tokens, "both") for tokens in _BOTH_TOKENS]
    return settings


def is_fixed(name: str) -> bool:
    """Whether a rule of this name is a fixed setting."""
    return name == "none" or name.partition("-")[0] in ("suffix", "head", "both")


def figure(values: Floats) -> Json:
    """Median over seeds, and [min, max]; at least one."""
    return Summary(float(np.median(values)), float(values.min()), float(values.max())).as_json()


def _schedules(world: World, schedules: Sequence[Schedule], seeds: int) -> dict[str, Record]:
    """All schedules at once, a lane for each of them and each seed."""
    rule = Scheduled([schedule for schedule in schedules for _ in range(seeds)])
    record = simulate(world, rule, np.tile(np.arange(seeds), len(schedules)))
    return {
        schedule.name: record.lanes(slice(seeds * number, seeds * (number + 1)))
        for number, schedule in enumerate(schedules)
    }


def _one(source: Source) -> Source:
    """The source of rules that know one drafter: the head where there is one."""
    return "suffix" if source == "suffix" else "head"


def _accepted(record: Record) -> float | None:
    drafted = int(record.drafted.sum())
    return int(record.accepted.sum()) / drafted if drafted else None
