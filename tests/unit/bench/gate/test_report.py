import json
from typing import Any

import pytest

from bench.engine.counts import Counts
from bench.gate.measure import Figures
from bench.gate.report import best_fixed, report, speeds_of


def counts(*speeds: float) -> list[Counts]:
    return [Counts(tokens=100, seconds=100 / speed) for speed in speeds]


FIGURES = Figures(
    counts={
        1: {
            "mixed": {
                "none": counts(50, 40, 60),
                "gate": counts(100, 90, 110),
                "fixed-2": counts(90, 80, 100),
                "fixed-8": counts(95, 120, 105),
            }
        },
        32: {
            "creative": {
                "none": counts(400, 400, 400),
                "gate": counts(380, 384, 388),
                "fixed-2": counts(200, 200, 200),
                "fixed-8": counts(100, 100, 100),
            }
        },
    },
    left_out=["32 mixed 3"],
)


def told(figures: Figures) -> Any:
    return json.loads(json.dumps(report(figures)))


def test_ratios_are_taken_round_by_round() -> None:
    cell = told(FIGURES)["by_concurrency"]["1"]["mixed"]

    assert cell["ratio_to_none"] == pytest.approx(2.0)
    assert cell["ratio_to_none_spread"] == pytest.approx([110 / 60, 2.25])
    assert cell["best_fixed"] == "fixed-8"
    assert cell["ratio_to_best_fixed"] == pytest.approx(110 / 105)


def test_no_drafts_are_a_fixed_setting_too_and_the_gate_is_none() -> None:
    assert best_fixed(FIGURES.counts[32]["creative"]) == "none"


def test_the_worst_of_all_is_reported_with_its_own_spread() -> None:
    found = told(FIGURES)

    assert found["worst_ratio_to_none"] == pytest.approx(0.96)
    assert found["worst_ratio_to_none_spread"] == pytest.approx([0.95, 0.97])
    assert found["worst_ratio_to_best_fixed"] == pytest.approx(0.96)


def test_a_target_is_missed_where_every_round_lies_below_it() -> None:
    found = told(FIGURES)

    assert found["missed_to_none"] == ["32 creative"]
    assert found["missed_to_best_fixed"] == []


def test_what_there_was_no_time_for_is_said() -> None:
    found = told(Figures(left_out=["1 mixed 1"]))

    assert found["left_out"] == ["1 mixed 1"]
    assert found["worst_ratio_to_none"] is None


def test_speeds_are_found_by_workload_concurrency_and_setting() -> None:
    assert speeds_of(FIGURES)["mixed"][1]["fixed-8"] == pytest.approx(105)
