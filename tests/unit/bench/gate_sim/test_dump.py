import json

import numpy as np
import pytest

from bench.gate_sim.bench import Finding
from bench.gate_sim.contest import Result
from bench.gate_sim.dump import compared, dumped


def finding(cell: str, *speeds: float) -> Finding:
    ours = {"none": np.ones(len(speeds)), "specgate": np.array(speeds)}
    return Finding(cell, "closed", False, Result(ours, 1.0, 0.5, 0.0, np.zeros((0, 2), np.int64)))


def test_two_versions_are_compared_cell_by_cell_in_what_both_ran() -> None:
    before = json.loads(json.dumps(dumped([finding("a", 1.0, 2.0), finding("gone", 1.0)])))
    after = dumped([finding("a", 1.2, 2.2), finding("b", 3.0)])

    found = compared(before, after)

    assert found["cells"] == 1
    assert found["mean_ratio"] == pytest.approx(1.15)
    assert found["slowest"] == {"a": pytest.approx(1.15)}


def test_the_slowest_and_the_fastest_cells_come_first() -> None:
    before = dumped([finding(str(n), 1.0) for n in range(30)])
    after = dumped([finding(str(n), 1.0 + n) for n in range(30)])

    found = compared(before, after)

    assert list(found["slowest"])[:2] == ["0", "1"]
    assert list(found["fastest"])[:2] == ["29", "28"]


def test_nothing_in_common_has_no_mean() -> None:
    assert compared({}, dumped([finding("a", 1.0)]))["mean_ratio"] is None
