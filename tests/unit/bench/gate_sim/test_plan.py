import pytest

from bench.gate_sim.curve import MOST_SEQUENCES
from bench.gate_sim.plan import FULL, QUICK, Plan, oscillating

PLANS = pytest.mark.parametrize("plan", [FULL, QUICK], ids=["full", "quick"])


@PLANS
def test_loads_range_from_one_request_to_a_full_batch(plan: Plan) -> None:
    assert min(plan.loads) == 1
    assert max(plan.loads) == MOST_SEQUENCES


@PLANS
def test_open_traffic_needs_no_recordings(plan: Plan) -> None:
    assert all(traffic.phases for traffic in plan.open_traffics)


def test_the_full_plan_has_every_shift_of_the_gate() -> None:
    shifts = {shift.name for shift in FULL.shifts}

    assert {"acceptance 0.8, 0.2, 0.8", "load 1, 64, 1", "step time doubles"} <= shifts
    assert any(name.startswith("load around") for name in shifts)


def test_a_load_oscillates_around_its_threshold() -> None:
    shift = oscillating(8)

    assert {stage.seats for stage in shift.stages} == {7, 9}
    assert not shift.counts
