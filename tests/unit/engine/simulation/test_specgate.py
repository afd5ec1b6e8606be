from dataclasses import replace

import numpy as np
import pytest

from engine.simulation.course import Stage, course_of
from engine.simulation.engine import Record, World, simulate
from engine.simulation.rule import Outcome
from engine.simulation.schedules import Source
from engine.simulation.specgate import Specgate
from tests.unit.bench.gate_sim.worlds import HOPELESS, SURE, curve_of, view_of, world_of

SEEDS = np.array([0, 1])


def run(world: World, source: Source) -> Record:
    return simulate(world, Specgate(world, len(SEEDS), source), SEEDS)


def decided(stated: list[float], *, after: Outcome | None = None, steps: int = 0) -> list[int]:
    """What is drafted for sequences with one token on offer each, after so many steps."""
    rule = Specgate(world_of(curve_of(a_token=0.1), seats=len(stated)), 1, "suffix")
    view = view_of(offered=[1] * len(stated), stated=stated)
    decision = rule.decide(view)
    for _ in range(steps):
        assert after is not None
        rule.observe(view, decision, after)
        decision = rule.decide(view)
    found: list[int] = decision.lengths[0].tolist()
    return found


def outcome(emitted: int, *, tokens: int = 2, seconds: float = 1.2) -> Outcome:
    return Outcome(
        emitted=np.array([[emitted]]),
        head_right=np.array([[0]]),
        tokens=np.array([tokens]),
        step_seconds=np.array([seconds]),
        head_seconds=np.array([0.0]),
    )


def test_it_drafts_what_is_sure_enough() -> None:
    assert decided([0.99, 0.001]) == [1, 0]


def test_the_gate_learns_from_the_results_of_steps() -> None:
    """Where a step brings many tokens, its time is worth more than a doubtful token."""
    assert decided([0.3]) == [1]
    assert decided([0.3], after=outcome(12), steps=100) == [0]


def test_the_gate_learns_what_steps_took() -> None:
    world = world_of(curve_of(a_token=0.01), seats=1, tokens=400)
    dear = world_of(curve_of(a_token=0.01), course=course_of([Stage(400, 1, steep=80.0)]))

    usual, late = (run(each, "suffix").drafted[100:].mean() for each in (world, dear))

    assert late < 0.5 * usual


def test_a_head_that_is_right_runs_and_drafts() -> None:
    record = run(world_of(curve_of(a_token=0.0, head=0.05)), "head")

    assert record.head_passes.mean() > 0.7
    assert record.accepted.sum() > 0.4 * record.drafted.sum()


def test_a_head_that_is_wrong_is_only_tried_now_and_then() -> None:
    world = world_of(curve_of(a_token=0.0, head=0.5), HOPELESS, seats=1, tokens=1500)

    record = run(world, "head")

    late = record.head_passes[len(record.head_passes) // 2 :]
    assert 0.0 < late.mean() < 0.08


@pytest.mark.parametrize(("source", "passes"), [("suffix", False), ("both", True)])
def test_it_uses_the_sources_that_there_are(source: Source, passes: bool) -> None:
    record = run(world_of(curve_of(a_token=0.0)), source)

    assert record.drafted.sum() > 0
    assert bool(record.head_passes.any()) == passes


def test_without_a_suffix_source_there_are_no_suffix_drafts() -> None:
    without_head = replace(SURE, write=replace(SURE.write, head=(0.01, 0.01, 0.01)))

    record = run(world_of(curve_of(a_token=0.0), without_head, tokens=200), "head")

    assert record.accepted.sum() < 0.1 * record.tokens.sum()


def test_the_same_seed_gives_the_same_decisions() -> None:
    world = world_of(curve_of(a_token=0.05, head=0.1))

    first, again = run(world, "both"), run(world, "both")

    assert np.array_equal(first.drafted, again.drafted)
    assert np.array_equal(first.tokens, again.tokens)


def test_the_policys_time_is_recorded_for_every_step_of_every_lane() -> None:
    world = world_of(curve_of(a_token=0.05))
    rule = Specgate(world, len(SEEDS), "both")

    record = simulate(world, rule, SEEDS)

    assert len(rule.spent_ns) == len(rule.sequences) == record.drafted.size
    assert min(rule.spent_ns) > 0
    assert max(rule.sequences) == 4
