import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.processor import describe_processor
from engine.worker.step_profile import ProfileFile, facts_of, measure, sizes_up_to

FACTS: dict[str, str | int] = {"model": "m", "machine": "two cores"}
POINTS = ((1, 0.015), (2, 0.016))


class Machine:
    """A machine with scripted step times and its own clock."""

    def __init__(self, seconds: dict[int, list[float]]) -> None:
        self.now = 0.0
        self.ran: list[int] = []
        self._seconds = seconds

    def run(self, size: int) -> None:
        self.ran.append(size)
        times = self._seconds[size]
        self.now += times.pop(0) if len(times) > 1 else times[0]

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("most", "sizes"),
    [(1, [1]), (2, [1, 2]), (5, [1, 2, 3, 4, 5]), (16, [1, 2, 3, 4, 6, 8, 12, 16])],
)
def test_sizes_are_two_an_octave(most: int, sizes: list[int]) -> None:
    assert sizes_up_to(most, []) == sizes


@pytest.mark.parametrize(
    ("edges", "sizes"), [([2, 4], [1, 2, 3, 4, 5, 6, 8]), ([8], [1, 2, 3, 4, 6, 8])]
)
def test_the_first_step_without_a_graph_is_measured(edges: list[int], sizes: list[int]) -> None:
    assert sizes_up_to(8, edges) == sizes


def test_the_fastest_of_three_rounds_counts_after_a_warm_up() -> None:
    machine = Machine({1: [9.0, 2.0, 1.0, 3.0], 4: [2.0, 2.5, 1.5]})

    measured = measure(machine.run, [1, 4], budget_seconds=100.0, clock=machine.clock)

    assert measured.points == ((1, 1.0), (4, 1.5))
    assert machine.ran == [1, 1, 4, 1, 4, 1, 4]


def test_a_disturbed_step_takes_no_longer_than_a_larger_one() -> None:
    machine = Machine({1: [1.0], 2: [7.0], 4: [1.2]})

    points = measure(machine.run, [1, 2, 4], budget_seconds=100.0, clock=machine.clock).points

    assert [size for size, _ in points] == [1, 2, 4]
    assert [seconds for _, seconds in points] == pytest.approx([1.0, 1.2, 1.2])


@pytest.mark.parametrize(
    ("times", "is_steady"),
    [([1.0, 1.1, 5.0], True), ([1.0, 1.0, 1.0], True), ([3.0, 1.0, 2.0], False)],
)
def test_agreeing_rounds_are_steady(times: list[float], is_steady: bool) -> None:
    machine = Machine({1: [times[0], *times], 2: [2 * seconds for seconds in times]})

    measured = measure(machine.run, [1, 2], budget_seconds=100.0, clock=machine.clock)

    assert measured.is_steady == is_steady


def test_no_size_begins_after_the_time_limit() -> None:
    machine = Machine({1: [1.0], 2: [2.0], 4: [4.0]})

    measured = measure(machine.run, [1, 2, 4], budget_seconds=3.0, clock=machine.clock)

    assert [size for size, _ in measured.points] == [1, 2]
    assert machine.ran == [1, 1, 2]
    assert not measured.is_steady  # one round cannot agree


def test_a_saved_profile_is_loaded(tmp_path: Path) -> None:
    file = ProfileFile(tmp_path / "profiles", FACTS)
    assert file.load() is None

    file.save(POINTS)

    assert file.load() == POINTS
    assert ProfileFile(tmp_path / "profiles", {**FACTS, "machine": "four cores"}).load() is None


@pytest.mark.parametrize("points", [(), ((2, 0.1),), ((1, 0.0),), ((1, 0.2), (2, 0.1))], ids=str)
def test_a_saved_profile_that_is_none_is_ignored(
    tmp_path: Path, points: tuple[tuple[int, float], ...]
) -> None:
    ProfileFile(tmp_path, FACTS).save(points)

    assert ProfileFile(tmp_path, FACTS).load() is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"facts": 1, "points": []}'], ids=str)
def test_an_unreadable_file_is_ignored(tmp_path: Path, text: str) -> None:
    ProfileFile(tmp_path, FACTS).save(POINTS)
    (path,) = tmp_path.iterdir()
    path.write_text(text, encoding="utf-8")

    assert ProfileFile(tmp_path, FACTS).load() is None


def test_a_profile_of_steps_belongs_to_a_processor() -> None:
    model = SimpleNamespace(model="m", dtype=torch.float32, quantization=None, enforce_eager=True)
    ranks = SimpleNamespace(parallel_config=SimpleNamespace(world_size=1))
    runner: Any = SimpleNamespace(
        model_config=model,
        vllm_config=ranks,
        device=torch.device("cpu"),
        most_rows=64,
    )

    facts = facts_of(runner, 16)

    assert facts["machine"] == describe_processor() != platform.machine()
