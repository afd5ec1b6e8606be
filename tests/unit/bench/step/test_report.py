import json
from typing import Any

import pytest

from bench.step.measure import Cell, StepFigures
from bench.step.report import report


def told(figures: StepFigures) -> Any:
    return json.loads(json.dumps(report(figures)))


def test_parts_are_compared_with_reading_round_by_round() -> None:
    cells: list[Cell] = [
        {"read": 0.010, "products": 0.011, "forward_300": 0.015},
        {"read": 0.020, "products": 0.022, "forward_300": 0.050},
        {"read": 0.012, "products": 0.024, "forward_300": 0.024},
    ]

    http = {1: [0.020, 0.020, 0.018]}
    found = told(StepFigures({("bfloat16 avx2", 1): cells}, http, {"bfloat16 avx2": 269}))

    row = found["kernels"]["bfloat16 avx2"]["1"]
    assert row["read_ms"]["median"] == pytest.approx(12)
    assert row["products_ms"]["spread"] == pytest.approx([11, 24])
    assert row["products_ratio"]["median"] == pytest.approx(1.1)
    assert row["forward_300_ratio"]["median"] == pytest.approx(2.0)
    assert row["forward_300_ratio"]["spread"] == pytest.approx([1.5, 2.5])
    assert "read_ratio" not in row
    assert found["http"]["1"]["step_ms"]["median"] == pytest.approx(20)
    assert found["http"]["1"]["ratio"]["spread"] == pytest.approx([1.0, 2.0])
    assert (found["bench"], found["rounds"]) == ("step", 3)
    assert found["weight_bytes"] == {"bfloat16 avx2": 269}


def test_rows_are_in_order_whatever_began() -> None:
    cell = {"read": 1.0, "products": 1.0}

    found = told(StepFigures({("a", rows): [cell] for rows in (512, 8, 64, 1)}))

    assert list(found["kernels"]["a"]) == ["1", "8", "64", "512"]


def test_without_a_round_there_are_no_figures() -> None:
    found = told(StepFigures())

    assert (found["kernels"], found["rounds"]) == ({}, 0)
