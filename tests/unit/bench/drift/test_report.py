import numpy as np
import pytest

from bench.drift.replay import Part
from bench.drift.report import report
from bench.rounds import Summary
from engine.training.replay import Acceptance


def acceptance(accepted: int) -> Acceptance:
    return Acceptance(np.array([100, 100]), np.array([accepted, 0]))


def part(kind: str, static: int, adapted: int, *events: str) -> Part:
    return Part(kind, 5, acceptance(static), acceptance(10), acceptance(adapted), list(events))


def test_ratios_are_of_late_parts_and_of_the_worst_one() -> None:
    found = report(
        [
            part("chat", 40, 40, "published"),
            part("sql", 40, 39),
            part("sql", 40, 50),
            part("sql", 50, 60),
            part("german", 20, 30),
        ],
        Summary(0.03, 0.01, 0.05),
        after_tokens=10,
    )

    assert found["kinds"]["sql"]["adapted_to_static"] == pytest.approx(110 / 90)
    assert found["kinds"]["german"]["adapted_to_static"] == pytest.approx(1.5)
    assert found["ratio_adapted_to_static"] == pytest.approx(110 / 90)
    assert found["worst_ratio_to_static"] == pytest.approx(39 / 40)
    assert [one["events"] for one in found["parts"]] == [["published"], [], [], [], []]
    assert found["kinds"]["sql"]["suffix"] == pytest.approx(0.05)
    assert found["serving_slowdown"] == 0.03
    assert found["serving_slowdown_spread"] == [0.01, 0.05]
