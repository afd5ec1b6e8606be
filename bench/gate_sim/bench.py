"""Runs a plan: every curve with every traffic at every load, then the shifts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from bench.gate_sim.arrays import Floats
from bench.gate_sim.contest import Contest, Policy, hold
from bench.gate_sim.course import Course, Stage, course_of
from bench.gate_sim.curve import FOLDER, Curve, load_curve
from bench.gate_sim.engine import World, simulate
from bench.gate_sim.plan import TEXTS, Plan, Shift, Traffic
from bench.gate_sim.recovery import steps_to_recover
from bench.gate_sim.schedules import Scheduled, fixed
from bench.gate_sim.texts import Library, build_library
from bench.gate_sim.traces import Trace, texts_of

_WARM_UP, _LEAST_WARM_UP = 0.2, 80
"""The part of a run that is not counted, as rules still learn: a share, and tokens a request."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Shifted:
    """A run with shifts.

    Attributes:
        recovery: Steps to recover, for each shift; None where it is not measured.
        to_none: For each stage the speed over that without drafts; (seeds,). Likewise.
        oracle_to_none: For each stage the same of the oracle.
        regret: For each stage the share of the oracle's speed that is lost; (seeds,). Likewise.
    """

    contest: Contest
    recovery: Sequence[int] | None = None
    to_none: Sequence[Floats] = ()
    oracle_to_none: Sequence[Floats] = ()
    regret: Sequence[Floats] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """All runs of a plan.

    Attributes:
        closed: By curve, traffic and requests at once.
        opened: By curve, traffic and load.
        shifted: By curve and shift.
    """

    closed: dict[tuple[str, str, float], Contest] = field(default_factory=dict)
    opened: dict[tuple[str, str, float], Contest] = field(default_factory=dict)
    shifted: dict[tuple[str, str], Shifted] = field(default_factory=dict)

    def contests(self) -> list[Contest]:
        """All of them, whatever they were for."""
        shifted = [run.contest for run in self.shifted.values()]
        return [*self.closed.values(), *self.opened.values(), *shifted]

    @property
    def curves(self) -> list[str]:
        """Names of those that were run."""
        keys: list[tuple[str, ...]] = [key[:2] for key in (*self.closed, *self.opened)]
        return list(dict.fromkeys(key[0] for key in (*keys, *self.shifted)))

    def of(self, curves: Collection[str]) -> "Findings":
        """The findings of some curves."""
        return Findings(
            {key: run for key, run in self.closed.items() if key[0] in curves},
            {key: run for key, run in self.opened.items() if key[0] in curves},
            {key: run for key, run in self.shifted.items() if key[0] in curves},
        )


def go_through(plan: Plan, traces: Sequence[Trace], policy: Policy, say: Say) -> Findings:
    """Run a plan.

    Args:
        plan: What to run.
        traces: Recordings; traffic that needs them is left out where there are none.
        policy: Makes the rule under test.
        say: Reports progress.

    Raises:
        CurveError: A curve cannot be read.
    """
    findings = Findings()
    curves = {name: load_curve(_file(name)) for name in {*plan.curves, *plan.shift_curves}}
    for traffic in plan.traffics:
        if not traffic.phases and not traces:
            say(f"{traffic.name}: no recordings, left out")
            continue
        library = library_of(traffic, plan.seeds, traces)
        for name in plan.curves:
            for load in plan.loads:
                contest = _run(World(curves[name], library, _at(load, plan)), traffic, policy, plan)
                findings.closed[name, traffic.name, load] = contest
            say(f"{name}, {traffic.name}: {_worst(findings.closed, name, traffic.name)}")
    for traffic in plan.open_traffics:
        library = library_of(traffic, plan.seeds, traces)
        for name in plan.curves:
            findings.opened.update(_opened(curves[name], library, traffic, policy, plan))
            say(f"{name}, {traffic.name}, open: {_worst(findings.opened, name, traffic.name)}")
    for shift in plan.shifts:
        library = library_of(shift.traffic, plan.shift_seeds, traces)
        for name in plan.shift_curves:
            run = _shifted(curves[name], library, shift, policy, plan)
            findings.shifted[name, shift.name] = run
            say(f"{name}, {shift.name}: recovered in {run.recovery} steps")
    return findings


def library_of(traffic: Traffic, seeds: int, traces: Sequence[Trace]) -> Library:
    """What is generated, for each seed and phase."""
    if not traffic.phases:
        return build_library([[texts_of(traces, seed)] for seed in range(seeds)])
    return build_library(
        [[phase.write_texts(TEXTS, seed) for phase in traffic.phases] for seed in range(seeds)]
    )


def _at(load: int, plan: Plan) -> Course:
    return course_of([Stage(plan.tokens_for(load), load)])


def _run(world: World, traffic: Traffic, policy: Policy, plan: Plan) -> Contest:
    begin = _warm_up(world.course)
    return hold(world, traffic.source, policy, seeds=plan.seeds, begin=begin)


def _warm_up(course: Course) -> int:
    tokens, seats = course.tokens, int(course.seats.max())
    return min(tokens // 2, max(int(_WARM_UP * tokens), _LEAST_WARM_UP * seats))


def _opened(
    curve: Curve, library: Library, traffic: Traffic, policy: Policy, plan: Plan
) -> dict[tuple[str, str, float], Contest]:
    """Arrivals at shares of what a closed loop with as many seats serves without drafts."""
    seats = plan.open_seats
    closed = World(curve, library, _at(seats, plan))
    plain = simulate(closed, Scheduled([fixed(0, "suffix")] * plan.seeds), np.arange(plan.seeds))
    tokens = closed.course.tokens
    a_second = seats * float(plain.speed(_warm_up(closed.course), tokens).mean())
    served = a_second / float(library.texts.lengths.mean())
    found = {}
    for load in plan.open_loads:
        stages = [Stage(2 * plan.tokens_for(seats), seats)]
        world = World(curve, library, course_of(stages, per_second=load * served))
        found[curve.name, traffic.name, load] = _run(world, traffic, policy, plan)
    return found


def _shifted(curve: Curve, library: Library, shift: Shift, policy: Policy, plan: Plan) -> Shifted:
    course = course_of(shift.stages)
    world = World(curve, library, course)
    begin = int(course.ends[0]) // 2
    contest = hold(world, shift.traffic.source, policy, seeds=plan.shift_seeds, begin=begin)
    if not shift.counts:
        return Shifted(contest)
    marks = list(pairwise([begin, *course.ends.tolist()]))
    return Shifted(
        contest,
        steps_to_recover(contest.records["specgate"], contest.records["oracle"], course),
        [contest.stage_ratio("specgate", "none", *mark) for mark in marks],
        [contest.stage_ratio("oracle", "none", *mark) for mark in marks],
        [1.0 - contest.stage_ratio("specgate", "oracle", *mark) for mark in marks],
    )


def _file(curve: str) -> Path:
    return FOLDER / f"{curve}.yaml"


def _worst(contests: Mapping[tuple[str, str, float], Contest], curve: str, traffic: str) -> str:
    found = [one for key, one in contests.items() if key[:2] == (curve, traffic)]
    none = min(float(np.median(one.ratio("specgate", "none"))) for one in found)
    best = min(float(np.median(one.ratio("specgate", one.best_fixed()))) for one in found)
    return f"at worst {none:.3f} of none, {best:.3f} of the best fixed"
