import json
from dataclasses import replace

import numpy as np
import pytest

from bench.gate_sim.bench import Finding, Recovery
from bench.gate_sim.contest import Result
from bench.gate_sim.report import report
from bench.rounds import rounded


def result_of(specgate: list[float], *, sequences: int = 1, microseconds: int = 10) -> Result:
    lanes = len(specgate)
    others = ("none", "suffix-4", "vllm-schedule", "sglang", "tensorrt")
    speeds = {name: np.ones(lanes) for name in others}
    speeds |= {"oracle": np.full(lanes, 2.0), "specgate": np.array(specgate)}
    return Result(speeds, 1.0, 0.5, 0.0, np.array([[sequences, 1000 * microseconds]]))


def started(specgate: float, right: float, lost: float) -> Finding:
    result = replace(
        result_of([0.0]),
        speeds={
            "none": np.ones(1),
            "specgate": np.array([specgate]),
            "right-start": np.array([right]),
        },
    )
    name = f"cpu/chat/1 {specgate}"
    return Finding(name, "start", False, result, lost_steps=np.array([lost]))


FINDINGS = [
    Finding("cpu/chat/1", "closed", False, result_of([1.5, 1.6, 1.4])),
    Finding(
        "cpu/chat/256",
        "closed",
        False,
        result_of([0.9, 1.0, 0.8], sequences=256, microseconds=40),
    ),
    Finding("gpu/chat/1", "closed", True, result_of([1.7])),
    Finding("cpu/chat/open 0.5", "open", False, result_of([1.2, 1.2, 1.2])),
    Finding(
        "cpu/long/slower",
        "shift",
        False,
        result_of([1.1, 1.1, 1.1]),
        Recovery(
            [3, 17],
            to_none=[np.array([1.2, 1.3, 1.1]), np.array([0.95] * 3)],
            oracle_to_none=[np.array([1.4] * 3), np.array([0.96] * 3)],
            regret=[np.array([0.1] * 3), np.array([0.01] * 3)],
        ),
    ),
    Finding("cpu/long/to and fro", "shift", False, result_of([1.0, 1.0, 1.0])),
    started(0.5, 1.0, 30.0),
    started(0.9, 1.5, 20.0),
]


def test_the_worst_cell_gives_its_name_its_median_and_its_spread() -> None:
    found = report(FINDINGS)

    assert found["worst_ratio_to_none_cell"] == "cpu/chat/256"
    assert found["worst_ratio_to_none"] == pytest.approx(0.9)
    assert found["worst_ratio_to_none_spread"] == pytest.approx([0.8, 1.0])
    assert found["worst_ratio_to_best_fixed"] == pytest.approx(0.9)
    assert found["worst_regret"] == pytest.approx(0.55)
    assert found["worst_regret_spread"] == pytest.approx([0.5, 0.6])


def test_regret_on_smooth_curves_and_on_staircases_is_told_apart() -> None:
    found = report(FINDINGS)

    assert found["worst_regret_smooth_cell"] == "cpu/chat/256"
    assert found["worst_regret_staircase_cell"] == "gpu/chat/1"
    assert found["worst_regret_staircase"] == pytest.approx(0.15)


def test_every_curve_counts_and_has_its_own_worst_cells() -> None:
    worse = Finding("gpu/chat/2", "closed", True, result_of([0.5]))

    found = report([*FINDINGS, worse])

    assert found["worst_ratio_to_none_cell"] == "gpu/chat/2"
    assert found["worst_by_curve"]["cpu"]["worst_ratio_to_none"] == pytest.approx(0.9)
    assert list(found["worst_cells"]["ratio_to_none"])[:2] == ["gpu/chat/2", "cpu/chat/256"]


def test_wrong_starts_have_their_own_figures() -> None:
    found = report(FINDINGS)

    assert found["worst_start_ratio_cell"] == "cpu/chat/1 0.5"
    assert found["worst_start_ratio"] == pytest.approx(0.5)
    assert found["worst_start_lost_steps"] == pytest.approx(30.0)
    assert found["start"]["cpu"]["chat"]["1 0.9"]["ratio_to_none"]["median"] == pytest.approx(0.9)


def test_the_worst_stage_is_reported_with_the_oracles_ratio() -> None:
    found = report(FINDINGS)

    assert found["worst_stage_ratio_to_none"] == pytest.approx(0.95)
    assert found["worst_stage_oracle_to_none"] == pytest.approx(0.96)


def test_the_longest_recovery_counts() -> None:
    assert report(FINDINGS)["reconverge_steps_max"] == 17


def test_the_policys_time_is_that_of_full_steps() -> None:
    assert report(FINDINGS)["policy_us_per_step_256"] == pytest.approx(40.0)


def test_details_are_found_by_curve_traffic_and_conditions() -> None:
    line = json.loads(json.dumps(rounded(report(FINDINGS))))

    assert line["bench"] == "gate-sim"
    assert line["closed"]["cpu"]["chat"]["256"]["ratio_to_none"]["median"] == 0.9
    assert line["open"]["cpu"]["chat"]["open 0.5"]["ratio_to_none"]["median"] == 1.2
    slower = line["shift"]["cpu"]["long"]["slower"]
    assert slower["reconverge_steps"] == [3, 17]
    assert slower["ratio_to_none_by_stage"][1]["median"] == 0.95
    assert slower["oracle_to_none_by_stage"][0]["median"] == 1.4
    assert "reconverge_steps" not in line["shift"]["cpu"]["long"]["to and fro"]


def test_what_was_not_run_has_no_figure() -> None:
    found = report(FINDINGS[:1])

    assert found["reconverge_steps_max"] is None
    assert found["policy_us_per_step_256"] is None
    assert found["worst_regret_staircase"] is None
    assert found["worst_stage_ratio_to_none"] is None
    assert found["worst_start_ratio"] is None
