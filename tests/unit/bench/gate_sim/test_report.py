import json
from dataclasses import replace

import numpy as np
import pytest

from bench.gate_sim.bench import Findings, Shifted
from bench.gate_sim.contest import Contest
from bench.gate_sim.report import report
from bench.rounds import rounded
from tests.unit.bench.gate_sim.worlds import record_of


def contest_of(specgate: list[float], *, sequences: int = 1, microseconds: int = 10) -> Contest:
    lanes = len(specgate)
    others = ("none", "suffix-4", "vllm-schedule", "sglang", "tensorrt")
    records = {name: record_of([1.0] * lanes) for name in others}
    records |= {"oracle": record_of([2.0] * lanes), "specgate": record_of(specgate)}
    return Contest(records, 0, 1, np.array([[sequences, 1000 * microseconds]]))


FINDINGS = Findings(
    closed={
        ("cpu", "chat", 1): contest_of([1.5, 1.6, 1.4]),
        ("cpu", "chat", 256): contest_of([0.9, 1.0, 0.8], sequences=256, microseconds=40),
    },
    opened={("cpu", "chat", 0.5): contest_of([1.2, 1.2, 1.2])},
    shifted={
        ("cpu", "slower"): Shifted(
            contest_of([1.1, 1.1, 1.1]),
            [3, 17],
            to_none=[np.array([1.2, 1.3, 1.1]), np.array([0.95] * 3)],
            oracle_to_none=[np.array([1.4] * 3), np.array([0.96] * 3)],
        ),
        ("cpu", "to and fro"): Shifted(contest_of([1.0, 1.0, 1.0])),
    },
)


def test_the_worst_run_gives_its_median_and_its_spread() -> None:
    found = report(FINDINGS)

    assert found["worst_ratio_to_none"] == pytest.approx(0.9)
    assert found["worst_ratio_to_none_spread"] == pytest.approx([0.8, 1.0])
    assert found["worst_ratio_to_best_fixed"] == pytest.approx(0.9)
    assert found["worst_regret_to_oracle"] == pytest.approx(0.55)
    assert found["worst_regret_to_oracle_spread"] == pytest.approx([0.5, 0.6])


def test_a_curve_beyond_the_requirement_is_reported_separately() -> None:
    closed = FINDINGS.closed | {("gpu-graphs", "chat", 1): contest_of([0.5])}

    found = json.loads(json.dumps(rounded(report(replace(FINDINGS, closed=closed)))))

    assert found["worst_ratio_to_none"] == pytest.approx(0.9)
    assert found["worst_by_curve"]["gpu-graphs"]["worst_ratio_to_none"] == pytest.approx(0.5)


def test_the_worst_stage_is_reported_with_the_oracles_ratio() -> None:
    found = report(FINDINGS)

    assert found["worst_stage_ratio_to_none"] == pytest.approx(0.95)
    assert found["worst_stage_oracle_to_none"] == pytest.approx(0.96)
    assert report(replace(FINDINGS, shifted={}))["worst_stage_ratio_to_none"] is None


def test_the_longest_recovery_counts() -> None:
    assert report(FINDINGS)["reconverge_steps_max"] == 17


def test_the_policys_time_is_that_of_full_steps() -> None:
    assert report(FINDINGS)["policy_us_per_step_256"] == pytest.approx(40.0)


def test_details_are_found_by_curve_traffic_and_load() -> None:
    line = json.loads(json.dumps(rounded(report(FINDINGS))))

    assert line["bench"] == "gate-sim"
    assert line["by_concurrency"]["cpu"]["chat"]["256"]["ratio_to_none"]["median"] == 0.9
    assert line["open_loop"]["cpu"]["chat"]["0.5"]["ratio_to_none"]["median"] == 1.2
    assert line["shifts"]["cpu"]["slower"]["reconverge_steps"] == [3, 17]
    assert line["shifts"]["cpu"]["slower"]["ratio_to_none_by_stage"][1]["median"] == 0.95
    assert line["shifts"]["cpu"]["slower"]["oracle_to_none_by_stage"][0]["median"] == 1.4
    assert line["shifts"]["cpu"]["to and fro"]["reconverge_steps"] is None


def test_what_was_not_run_has_no_figure() -> None:
    few = Findings(closed={("cpu", "chat", 1): contest_of([1.0])})

    found = report(few)

    assert found["reconverge_steps_max"] is None
    assert found["policy_us_per_step_256"] is None
