from dataclasses import replace

import pytest

from bench.gate_sim.bench import Findings, go_through, library_of
from bench.gate_sim.course import Stage
from bench.gate_sim.plan import QUICK, Plan, Shift, Traffic, oscillating
from bench.gate_sim.traces import trace_of
from tests.unit.bench.gate_sim.worlds import SURE, Eager

TRAFFIC = Traffic("sure", "suffix", (SURE,))
PLAN: Plan = replace(
    QUICK,
    curves=("cpu-smollm2",),
    loads=(1, 2),
    traffics=(TRAFFIC,),
    open_loads=(0.5,),
    open_traffics=(TRAFFIC,),
    shift_curves=("gpu-8b",),
    shifts=(
        Shift("slower", TRAFFIC, [Stage(150, 2), Stage(150, 2, slow=2.0)]),
        replace(oscillating(2), traffic=TRAFFIC, stages=[Stage(10, 1), Stage(10, 3)] * 2),
    ),
    seeds=2,
    shift_seeds=2,
    tokens=40,
    tokens_a_seat=(20, 40),
    open_seats=2,
)


@pytest.fixture(scope="module")
def findings() -> Findings:
    return go_through(PLAN, [], Eager, lambda _: None)


def test_every_curve_traffic_and_load_is_run(findings: Findings) -> None:
    assert set(findings.closed) == {("cpu-smollm2", "sure", 1), ("cpu-smollm2", "sure", 2)}
    assert set(findings.opened) == {("cpu-smollm2", "sure", 0.5)}
    assert set(findings.shifted) == {("gpu-8b", "slower"), ("gpu-8b", "load around 2")}
    assert len(findings.contests()) == 5


def test_recovery_is_counted_only_where_there_is_time_for_it(findings: Findings) -> None:
    slower = findings.shifted["gpu-8b", "slower"].recovery

    assert slower is not None
    assert len(slower) == 1
    assert len(findings.shifted["gpu-8b", "slower"].to_none) == 2
    assert findings.shifted["gpu-8b", "load around 2"].recovery is None


def test_recorded_traffic_is_left_out_without_recordings_and_that_is_said() -> None:
    said: list[str] = []
    plan = replace(PLAN, traffics=(Traffic("recorded", "suffix"),), open_traffics=(), shifts=())

    found = go_through(plan, [], Eager, said.append)

    assert found.contests() == []
    assert said == ["recorded: no recordings, left out"]


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
