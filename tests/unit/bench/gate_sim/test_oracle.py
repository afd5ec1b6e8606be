from dataclasses import replace

import numpy as np
import pytest

from bench.gate_sim.contest import fixed_settings
from bench.gate_sim.oracle import Oracle, _Market
from bench.gate_sim.processes import EDIT
from engine.simulation.course import Stage, course_of
from engine.simulation.curve import Curve
from engine.simulation.engine import Record, World, simulate
from engine.simulation.schedules import Scheduled, Source
from tests.unit.bench.gate_sim.worlds import HOPELESS, SURE, curve_of, world_of

SEEDS = np.array([0, 1])


def run(world: World, source: Source) -> Record:
    return simulate(world, Oracle(world, len(SEEDS), source), SEEDS)


def fastest_fixed(world: World, source: Source) -> float:
    settings = fixed_settings(source)
    rule = Scheduled([setting for setting in settings for _ in SEEDS])
    record = simulate(world, rule, np.tile(SEEDS, len(settings)))
    tokens = world.course.tokens
    return float(record.speed(tokens // 5, tokens).reshape(-1, len(SEEDS)).mean(1).max())


@pytest.mark.parametrize(
    ("seats", "curve", "source"),
    [
        pytest.param(8, curve_of(a_token=0.0, head=0.2), "head", id="8, flat, head"),
        pytest.param(1, curve_of(a_token=0.03, head=0.1), "suffix", id="1, rising, suffix"),
        pytest.param(1, curve_of(a_token=0.3, head=0.1), "both", id="1, steep, both"),
        pytest.param(8, curve_of(a_token=0.3, head=0.1), "both", id="8, steep, both"),
    ],
)
def test_no_fixed_setting_is_faster(seats: int, curve: Curve, source: Source) -> None:
    world = world_of(curve, EDIT, course=course_of([Stage({1: 700, 8: 500}[seats], seats)]))

    speed = run(world, source).speed(world.course.tokens // 5, world.course.tokens).mean()

    assert speed > 0.97 * fastest_fixed(world, source)


def test_where_tokens_cost_nothing_all_are_bought() -> None:
    world = world_of(curve_of(a_token=0.0))

    record = run(world, "suffix")

    assert record.drafted.mean() > 4 * 3.0


def test_where_every_token_costs_a_step_almost_none_is() -> None:
    record = run(world_of(curve_of(a_token=1.0, base=0.01), HOPELESS), "both")

    # Now and then one is as good as certain.
    assert record.drafted.sum() < 0.01 * record.tokens.sum()
    assert record.head_passes.sum() == 0


@pytest.mark.parametrize(
    ("head", "runs"), [(0.01, True), (50.0, False)], ids=["cheap head", "dear head"]
)
def test_the_head_runs_where_it_pays(head: float, runs: bool) -> None:
    record = run(world_of(curve_of(a_token=0.0, head=head), SURE), "head")

    # Not where nothing decodes, nor for the last token of an answer.
    assert bool(record.head_passes.mean() > 0.9) == runs
    assert runs or record.head_passes.sum() == 0


def test_with_a_falling_curve_no_rule_drafts_more_than_is_offered() -> None:
    curve = curve_of(a_token=0.0)
    falling = curve.step - 0.001 * np.arange(curve.step.shape[1])
    world = world_of(replace(curve, step=falling.clip(min=0.1)))

    record = run(world, "suffix")

    assert record.drafted.max() <= 4 * 32


def test_it_knows_at_once_that_tokens_have_become_dear() -> None:
    course = course_of([Stage(100, 4), Stage(100, 4, steep=40.0)])
    world = world_of(curve_of(a_token=0.02), course=course)

    record = run(world, "suffix")

    after = record.before >= course.ends[0]
    assert record.drafted[after].mean() < 0.2 * record.drafted[~after].mean()


def test_on_a_staircase_it_fills_a_step_up_to_its_edge_and_stays_within_it() -> None:
    smooth, edge, seats = curve_of(a_token=0.05), 16, 8
    sizes = -(-np.arange(smooth.step.shape[1]) // edge) * edge
    stairs = replace(smooth, step=smooth.step[:, sizes], edges=tuple(range(edge, 4096, edge)))
    # Long answers, so that hardly a step has prompts, which count towards its edge.
    long = replace(SURE, answer_tokens=2_000.0)
    world = world_of(stairs, long, course=course_of([Stage(150, seats)]))

    record = run(world, "suffix")

    tokens = record.drafted + seats
    assert (tokens % edge == 0).mean() > 0.8
    assert (tokens % edge == 1).mean() < 0.05


def test_of_equally_sure_tokens_it_takes_as_many_as_fit() -> None:
    times = np.array([1.0] * 7 + [100.0] * 58)
    market = _Market(times, verify=0.0, worth=1.0)

    bought = market.buy(np.full((4, 3), 0.5))

    assert bought.sum() == 6


def test_where_verification_costs_more_than_all_drafts_bring_nothing_is_bought() -> None:
    market = _Market(np.zeros(65), verify=3.0, worth=1.0)

    assert market.buy(np.full((2, 2), 0.7)).tolist() == [0, 0]
    assert market.buy(np.full((2, 2), 0.8)).tolist() == [2, 2]


def test_the_head_runs_for_what_it_may_add_to_a_suffix_draft() -> None:
    market = _Market(np.linspace(0.0, 0.64, 65), verify=0.0, worth=1.0)
    suffix = np.array([[0.5, 0.0, 0.0]])
    # As good on average, but now and then much better.
    before = np.array([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])

    assert market.wants(suffix, before, passes=np.array([0.0, 0.1])).tolist() == [True]
    assert market.wants(suffix, before, passes=np.array([0.0, 0.4])).tolist() == [False]
