"""Runs the cells of a plan: every curve with every traffic under every kind of conditions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import groupby, pairwise, product
from operator import attrgetter
from typing import Literal

import numpy as np

from bench.command import new_pool
from bench.gate_sim.contest import Policy, Records, Result, hold, stage_ratio
from bench.gate_sim.plan import CURVES, TEXTS, Plan, PlanError, Shift, Traffic
from bench.gate_sim.recovery import steps_to_recover
from bench.gate_sim.start import Start, lost_steps, run_from
from bench.gate_sim.traces import Trace, texts_of
from engine.simulation.arrays import Floats
from engine.simulation.course import Course, Stage, course_of
from engine.simulation.curve import Curve, load_curve
from engine.simulation.engine import World, simulate
from engine.simulation.schedules import Scheduled, fixed
from engine.simulation.texts import Library, build_library

_WARM_UP, _LEAST_WARM_UP = 0.2, 80
"""The part of a run that is not counted, as rules still learn: a share, and tokens a request."""

Kind = Literal["closed", "open", "shift", "start"]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a run with shifts shows of each stage.

    Attributes:
        steps: Steps to recover, for each shift.
        to_none: For each stage the speed over that without drafts; (seeds,).
        oracle_to_none: For each stage the same of the oracle.
        regret: For each stage the share of the oracle's speed that is lost; (seeds,).
    """

    steps: Sequence[int]
    to_none: Sequence[Floats]
    oracle_to_none: Sequence[Floats]
    regret: Sequence[Floats]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a cell shows.

    Attributes:
        has_edges: Whether its curve is a staircase.
        recovery: Of shifts where it is measured.
        lost_steps: Of wrong starts: time that they lose, in steps without drafts; (seeds,).
    """

    cell: str
    kind: Kind
    has_edges: bool
    result: Result
    recovery: Recovery | None = None
    lost_steps: Floats | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A run of all rules on one curve, with one traffic, under one kind of conditions.

    Attributes:
        name: Curve, traffic and conditions, with `/` between them; unique in a plan.
        curve: Name of the curve.
        run: Simulates it.
    """

    name: str
    kind: Kind
    curve: str
    traffic: Traffic
    seeds: int
    run: Callable[["Setup"], Finding]


@dataclass(frozen=True, slots=True)
class Setup:
    """What a cell is run with."""

    cell: Cell
    curve: Curve
    library: Library
    policy: Policy

    def finding(self, result: Result, recovery: Recovery | None = None) -> Finding:
        """What the cell shows."""
        cell, has_edges = self.cell, bool(self.curve.edges)
        return Finding(cell.name, cell.kind, has_edges, result, recovery)

    def world(self, course: Course) -> World:
        """The cell's world under these conditions."""
        return World(self.curve, self.library, course)


def cells_of(plan: Plan) -> list[Cell]:
    """All cells of a plan."""
    found = []

    def add(kind: Kind, curve: str, traffic: Traffic, conditions: str, run: _Run) -> None:
        seeds = plan.shift_seeds if kind == "shift" else plan.seeds
        name = f"{curve}/{traffic.name}/{conditions}"
        found.append(Cell(name, kind, curve, traffic, seeds, run))

    for grid in plan.closed:
        for curve, traffic, load in grid.points():
            add("closed", curve, traffic, f"{load}", partial(_closed, plan, int(load)))
    for curve, traffic, share in plan.opened.points():
        add("open", curve, traffic, f"open {share}", partial(_opened, plan, share))
    for curve, shift in product(plan.shift_curves, plan.shifts):
        add("shift", curve, shift.traffic, shift.name, partial(_shifted, shift))
    for (curve, traffic, load), start in product(plan.started.points(), plan.starts):
        name = f"{load} {start.name}"
        add("start", curve, traffic, name, partial(_started, plan, start, int(load)))
    return found


def matching(cells: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
    """The cells whose names match any of these patterns, as a shell has them.

    Raises:
        PlanError: A pattern matches no cell.
    """
    for pattern in patterns:
        if not any(fnmatchcase(cell.name, pattern) for cell in cells):
            raise PlanError(f"no cell is called {pattern}")
    return [cell for cell in cells if any(fnmatchcase(cell.name, one) for one in patterns)]


def go_through(
    cells: Sequence[Cell], traces: Sequence[Trace], policy: Policy, say: Say
) -> list[Finding]:
    """Run cells, on all processors.

    Args:
        cells: What to run.
        traces: Recordings; traffic that needs them is left out where there are none.
        policy: Makes the rule under test.
        say: Reports progress.

    Raises:
        CurveError: A curve cannot be read.
    """
    of_texts = attrgetter("traffic.name", "curve")
    groups = [list(group) for _, group in groupby(sorted(cells, key=of_texts), key=of_texts)]
    found: list[Finding] = []
    with new_pool() as pool:
        for done in pool.map(partial(_run_group, traces, policy), groups):
            for finding in done:
                say(f"{finding.cell}: {_brief(finding)}")
            found += done
    return found


def library_of(traffic: Traffic, seeds: int, traces: Sequence[Trace]) -> Library:
    """What is generated, for each seed and phase."""
    if not traffic.phases:
        return build_library([[texts_of(traces, seed)] for seed in range(seeds)])
    return build_library(
        [[phase.write_texts(TEXTS, seed) for phase in traffic.phases] for seed in range(seeds)]
    )


_Run = Callable[[Setup], Finding]


def _run_group(traces: Sequence[Trace], policy: Policy, cells: Sequence[Cell]) -> list[Finding]:
    """Run cells that have the same curve and traffic."""
    curve, traffic = load_curve(CURVES / f"{cells[0].curve}.yaml"), cells[0].traffic
    if not traffic.phases and not traces:
        return []
    library = library_of(traffic, max(cell.seeds for cell in cells), traces)
    return [cell.run(Setup(cell, curve, library, policy)) for cell in cells]


def _closed(plan: Plan, load: int, setup: Setup) -> Finding:
    return setup.finding(_result(setup, _at(load, plan)))


def _opened(plan: Plan, share: float, setup: Setup) -> Finding:
    """Arrivals at a share of what a closed loop with as many seats serves without drafts."""
    seats, lanes = plan.open_seats, np.arange(setup.cell.seeds)
    closed = _at(seats, plan)
    plain = simulate(setup.world(closed), Scheduled([fixed(0, "suffix")] * len(lanes)), lanes)
    a_second = seats * float(plain.speed(_warm_up(closed), closed.tokens).mean())
    served = a_second / float(setup.library.texts.lengths.mean())
    course = course_of([Stage(2 * plan.tokens_for(seats), seats)], per_second=share * served)
    return setup.finding(_result(setup, course))


def _shifted(shift: Shift, setup: Setup) -> Finding:
    course = course_of(shift.stages)
    begin = int(course.ends[0]) // 2
    records, result = _held(setup, course, begin)
    if not shift.counts:
        return setup.finding(result)
    marks = list(pairwise([begin, *course.ends.tolist()]))
    recovery = Recovery(
        steps_to_recover(records["specgate"], records["oracle"], course),
        [stage_ratio(records, "specgate", "none", *mark) for mark in marks],
        [stage_ratio(records, "oracle", "none", *mark) for mark in marks],
        [1.0 - stage_ratio(records, "specgate", "oracle", *mark) for mark in marks],
    )
    return setup.finding(result, recovery)


def _started(plan: Plan, start: Start, load: int, setup: Setup) -> Finding:
    world = setup.world(course_of([Stage(plan.start_tokens, load)]))
    cell = setup.cell
    result = run_from(start, world, cell.traffic.source, setup.policy, seeds=cell.seeds)
    return replace(setup.finding(result), lost_steps=lost_steps(result, plan.start_tokens))


def _at(load: int, plan: Plan) -> Course:
    return course_of([Stage(plan.tokens_for(load), load)])


def _result(setup: Setup, course: Course) -> Result:
    return _held(setup, course, _warm_up(course))[1]


def _held(setup: Setup, course: Course, begin: int) -> tuple[Records, Result]:
    cell = setup.cell
    world = setup.world(course)
    return hold(world, cell.traffic.source, setup.policy, seeds=cell.seeds, begin=begin)


def _warm_up(course: Course) -> int:
    tokens, seats = course.tokens, int(course.seats.max())
    return min(tokens // 2, max(int(_WARM_UP * tokens), _LEAST_WARM_UP * seats))


def _brief(finding: Finding) -> str:
    result, regret = finding.result, finding.result.regret()
    none = float(np.median(result.ratio("specgate", "none")))
    if finding.lost_steps is not None:
        return f"{none:.3f} of none, {float(np.median(finding.lost_steps)):.1f} steps lost"
    best = float(np.median(result.ratio("specgate", result.best_fixed())))
    brief = f"{none:.3f} of none, {best:.3f} of the best fixed"
    return brief if regret is None else f"{brief}, regret {float(np.median(regret)):.1%}"
