from typing import Any, cast

import pytest

from bench.step.measure import StepFigures, measure
from bench.step.model import StepModel
from bench.step.plan import Plan
from bench.step.service import Service


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.step.measure._SETTLE_SECONDS", 0.0)


class Model:
    """Records its calls."""

    weight_bytes = 8

    def __init__(self, kernel: str, calls: list[Any]) -> None:
        self.kernel, self.calls = kernel, calls

    def read(self) -> None:
        self.calls.append((self.kernel, "read"))

    def multiply(self, rows: int) -> None:
        self.calls.append((self.kernel, "products", rows))

    def forward(self, rows: int, context: int) -> None:
        self.calls.append((self.kernel, "forward", rows, context))


class Answers:
    """A service whose steps take a second for each client."""

    def step_seconds(self, requests: int) -> float:
        return float(requests)


def run(rounds: int, *, seconds: float = 0.0) -> tuple[StepFigures, list[Any]]:
    calls: list[Any] = []
    models = cast("list[StepModel]", [Model("fast", calls), Model("slow", calls)])
    plan = Plan((1, 8), (300, 4_000), (1, 2), rounds, seconds)
    return measure(plan, models, cast("Service", Answers())), calls


def test_every_kernel_and_number_of_rows_has_a_cell_a_round() -> None:
    figures, _ = run(3)

    assert set(figures.cells) == {("fast", 1), ("fast", 8), ("slow", 1), ("slow", 8)}
    for cells in figures.cells.values():
        assert len(cells) == 3
        for cell in cells:
            assert set(cell) == {"read", "products", "forward_300", "forward_4000"}
            assert min(cell.values()) >= 0
    assert figures.http == {1: [1.0] * 3, 2: [2.0] * 3}
    assert figures.weight_bytes == {"fast": 8, "slow": 8}


def test_another_kernel_and_part_are_first_in_each_round() -> None:
    _, calls = run(2)

    assert calls[:4] == [
        ("fast", "read"),
        ("fast", "products", 1),
        ("fast", "forward", 1, 300),
        ("fast", "forward", 1, 4_000),
    ]
    assert calls[16:20] == [
        ("slow", "products", 8),
        ("slow", "forward", 8, 300),
        ("slow", "forward", 8, 4_000),
        ("slow", "read"),
    ]
    assert len(calls) == 32


def test_a_short_part_is_called_more_than_once() -> None:
    _, calls = run(1, seconds=0.001)

    assert calls.count(("fast", "read")) > 2
