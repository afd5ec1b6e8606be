import json
from collections.abc import Mapping
from typing import Any

import pytest

from bench.engine.counts import Counts
from bench.head.acceptance import Acceptance
from bench.head.measure import Cell, HeadFigures
from bench.head.report import report
from bench.head.timing import Timing


def cell(speed: float, *, step_ms: float, pass_ms: float = 0.0) -> Cell:
    counts = Counts(requests=1, tokens=100, seconds=100 / speed)
    passes = Timing(10, 10 * pass_ms / 1e3) if pass_ms else Timing()
    return Cell(counts, passes, Timing(99, 99 * step_ms / 1e3))


def figures() -> HeadFigures:
    speeds = [(50, 75, 60, 1.0), (10, 11, 9, 3.0), (40, 56, 48, 2.0)]
    rounds: list[Mapping[str, Cell]] = [
        {
            "none": cell(none, step_ms=20.0),
            "head": cell(head, step_ms=23.0, pass_ms=9.0),
            "head_always": cell(always, step_ms=25.0, pass_ms=pass_ms),
        }
        for none, head, always, pass_ms in speeds
    ]
    acceptance = {"chat": Acceptance(2, 90, steps=10, verified=29, reached=(6, 4, 2))}
    return HeadFigures(acceptance, rounds, left_out=[], idle_cores=0.01)


def told(found: HeadFigures) -> Any:
    return json.loads(json.dumps(report(found)))


def test_speed_is_compared_round_by_round() -> None:
    found = told(figures())

    assert found["bench"] == "head"
    assert found["speed_ratio_chat"] == pytest.approx(1.4)
    assert found["speed_ratio_chat_spread"] == pytest.approx([1.1, 1.5])
    assert found["speed_ratio_chat_always"] == pytest.approx(1.2)
    assert found["tokens_per_second"]["head"] == pytest.approx(56)


def test_a_pass_where_every_step_drafts_is_set_against_a_step_of_none() -> None:
    found = told(figures())

    assert found["draft_cost_share"] == pytest.approx(0.1)
    assert found["draft_cost_share_spread"] == pytest.approx([0.05, 0.15])
    assert found["draft_ms"] == pytest.approx(2.0)
    assert found["step_ms"] == pytest.approx({"none": 20.0, "head": 23.0, "head_always": 25.0})


def test_acceptance_is_reported_by_kind_and_position() -> None:
    found = told(figures())

    assert found["acceptance_ratio_chat"] == pytest.approx(0.4)
    assert found["acceptance_ratio_code"] is None
    assert found["acceptance"]["chat"]["length"] == pytest.approx(2.2)
    assert found["acceptance"]["chat"]["by_position"] == pytest.approx([0.6, 0.4, 0.2])


def test_without_a_round_ratios_are_null() -> None:
    found = told(HeadFigures())

    assert found["speed_ratio_chat"] is found["speed_ratio_chat_spread"] is None
    assert found["draft_cost_share"] is found["draft_ms"] is None
    assert found["rounds"] == 0


def test_at_prices_the_prompts_own_steps_do_not_count() -> None:
    counts = Counts(requests=2, tokens=30, seconds=1.0, spec_steps=8)
    counts.steps.update(head=8, plain=14)
    counts.drafted["head"], counts.accepted["head"] = 24, 8
    cells = {name: Cell(counts, Timing(8, 0.01), Timing(20, 0.4)) for name in ("none", "head")}

    found = told(HeadFigures(rounds=[{**cells, "head_always": cells["head"]}]))

    assert found["at_prices"] == pytest.approx(
        {"ratio": 1 / 3, "length": 2.0, "drafted_step_ratio": 0.4}
    )
