from collections.abc import Mapping
from dataclasses import replace

import pytest

from bench.gate_sim.bench import Finding, cells_of, go_through, library_of, matching
from bench.gate_sim.plan import QUICK, Grid, Plan, PlanError, Shift, Traffic, oscillating
from bench.gate_sim.start import Start
from bench.gate_sim.traces import trace_of
from engine.simulation.course import Stage
from tests.unit.bench.gate_sim.worlds import SURE, Eager

TRAFFIC = Traffic("sure", "suffix", (SURE,))
PLAN: Plan = replace(
    QUICK,
    closed=[Grid(("cpu-smollm2", "gpu-graphs"), (TRAFFIC,), (1, 2))],
    opened=Grid(("cpu-smollm2",), (TRAFFIC,), (0.5,)),
    shift_curves=("gpu-8b",),
    shifts=(
        Shift("slower", TRAFFIC, [Stage(150, 2), Stage(150, 2, slow=2.0)]),
        replace(oscillating(2), traffic=TRAFFIC, stages=[Stage(10, 1), Stage(10, 3)] * 2),
    ),
    started=Grid(("gpu-8b",), (TRAFFIC,), (2,)),
    starts=(Start("half", slow=0.5),),
    seeds=2,
    shift_seeds=2,
    tokens=40,
    tokens_a_seat=(20, 40),
    start_tokens=30,
    open_seats=2,
)


@pytest.fixture(scope="module")
def findings() -> Mapping[str, Finding]:
    return {one.cell: one for one in go_through(cells_of(PLAN), [], Eager, lambda _: None)}


def test_every_cell_is_run(findings: Mapping[str, Finding]) -> None:
    assert set(findings) == {
        "cpu-smollm2/sure/1",
        "cpu-smollm2/sure/2",
        "gpu-graphs/sure/1",
        "gpu-graphs/sure/2",
        "cpu-smollm2/sure/open 0.5",
        "gpu-8b/sure/slower",
        "gpu-8b/sure/load around 2",
        "gpu-8b/sure/2 half",
    }


def test_cells_on_staircases_are_told_apart(findings: Mapping[str, Finding]) -> None:
    assert findings["gpu-graphs/sure/1"].has_edges
    assert not findings["cpu-smollm2/sure/1"].has_edges


def test_recovery_is_counted_only_where_there_is_time_for_it(
    findings: Mapping[str, Finding],
) -> None:
    slower = findings["gpu-8b/sure/slower"].recovery

    assert slower is not None
    assert len(slower.steps) == 1
    assert len(slower.to_none) == 2
    assert findings["gpu-8b/sure/load around 2"].recovery is None


def test_a_rule_that_ignores_the_profile_loses_nothing_by_a_wrong_start(
    findings: Mapping[str, Finding],
) -> None:
    lost = findings["gpu-8b/sure/2 half"].lost_steps

    assert lost is not None
    assert lost.tolist() == [0.0, 0.0]
    assert findings["cpu-smollm2/sure/1"].lost_steps is None


@pytest.mark.parametrize(
    ("patterns", "count"), [(["gpu-graphs/sure/1"], 1), (["*/1", "cpu-*"], 4), (["*"], 8)], ids=str
)
def test_cells_are_chosen_by_name_or_pattern(patterns: list[str], count: int) -> None:
    assert len(matching(cells_of(PLAN), patterns)) == count


def test_a_pattern_that_matches_nothing_is_refused_by_name() -> None:
    with pytest.raises(PlanError, match="gpu-9b"):
        matching(cells_of(PLAN), ["*", "gpu-9b/*"])


def test_recorded_traffic_is_left_out_without_recordings() -> None:
    plan = replace(PLAN, closed=[Grid(("gpu-8b",), (Traffic("recorded", "suffix"),), (1,))])
    recorded = [cell for cell in cells_of(plan) if "/recorded/" in cell.name]

    assert len(recorded) == 1
    assert go_through(recorded, [], Eager, lambda _: None) == []


def test_recordings_are_the_texts_of_traffic_without_phases() -> None:
    traces = [trace_of(["a", "b"], list("abababab")) for _ in range(3)]

    library = library_of(Traffic("recorded", "suffix"), 2, traces)

    assert library.count == 3
    assert library.base.shape == (2, 1)


@pytest.mark.parametrize(
    ("seats", "tokens"), [(1, 40), (1000, 20), (2, 20)], ids=["most", "least", "between"]
)
def test_a_run_has_fewer_tokens_for_each_of_many_requests(seats: int, tokens: int) -> None:
    assert PLAN.tokens_for(seats) == tokens
