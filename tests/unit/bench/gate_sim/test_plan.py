import pytest

from bench.gate_sim.bench import cells_of
from bench.gate_sim.plan import FULL, QUICK, STAIRCASES, Plan, oscillating
from engine.simulation.curve import MOST_SEQUENCES

PLANS = pytest.mark.parametrize("plan", [FULL, QUICK], ids=["full", "quick"])


@PLANS
def test_loads_range_from_one_request_to_a_full_batch(plan: Plan) -> None:
    loads = {load for grid in plan.closed for load in grid.loads}

    assert min(loads) == 1
    assert max(loads) == MOST_SEQUENCES


@PLANS
def test_names_of_cells_are_distinct_and_need_no_quotes_in_a_list(plan: Plan) -> None:
    names = [cell.name for cell in cells_of(plan)]

    assert len(set(names)) == len(names)
    assert all(name.count("/") == 2 and "," not in name for name in names)


@PLANS
def test_staircases_are_part_of_every_plan(plan: Plan) -> None:
    assert set(STAIRCASES) & {curve for grid in plan.closed for curve in grid.curves}


@PLANS
def test_open_traffic_needs_no_recordings(plan: Plan) -> None:
    assert all(traffic.phases for traffic in plan.opened.traffics)


def test_the_full_plan_has_every_shift_of_the_gate() -> None:
    shifts = {shift.name for shift in FULL.shifts}

    assert {
        "acceptance 0.8 to 0.2 and back",
        "load 1 to 64 and back",
        "step time doubles",
    } <= shifts
    assert any(name.startswith("load around") for name in shifts)


def test_a_load_oscillates_around_its_threshold() -> None:
    shift = oscillating(8)

    assert {stage.seats for stage in shift.stages} == {7, 9}
    assert not shift.counts
