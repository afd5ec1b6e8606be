import numpy as np
import pytest

from bench.gate_sim.contest import (
    Result,
    figure,
    fixed_settings,
    hold,
    is_fixed,
    result_of,
    stage_ratio,
)
from engine.simulation.course import Stage, course_of
from engine.simulation.engine import Record
from engine.simulation.schedules import Source
from tests.unit.bench.gate_sim.worlds import Eager, curve_of, record_of, world_of


def result_with(**speeds: list[float]) -> Result:
    records = {name.replace("_", "-"): record_of(lanes) for name, lanes in speeds.items()}
    records.setdefault("specgate", next(iter(records.values())))
    world = world_of(curve_of(a_token=0.1))
    return result_of(records, Eager(world, 1, "suffix"), begin=0, end=1)


def test_the_best_fixed_setting_is_the_fastest_over_all_seeds() -> None:
    result = result_with(
        none=[1.0, 1.0], suffix_4=[2.0, 2.0], head_2=[2.5, 1.0], oracle=[9.0, 9.0], sglang=[5.0] * 2
    )

    assert result.best_fixed() == "suffix-4"


def test_no_drafts_may_be_the_best_fixed_setting() -> None:
    assert result_with(none=[1.0], suffix_4=[0.9]).best_fixed() == "none"


def test_ratios_are_taken_seed_by_seed() -> None:
    result = result_with(none=[1.0, 4.0], specgate=[2.0, 6.0])

    assert result.ratio("specgate", "none").tolist() == pytest.approx([2.0, 1.5])


def test_a_stage_is_judged_by_itself() -> None:
    before = np.array([[0], [10], [20], [30]])
    none = np.zeros_like(before)

    def record(seconds: list[float]) -> Record:
        column = np.array(seconds)[:, None]
        return Record(before, np.full((4, 1), 10.0), column, column, none, none, none)

    records = {"none": record([1.0] * 4), "specgate": record([1.0, 1.0, 0.5, 0.5])}

    assert stage_ratio(records, "specgate", "none", 0, 20).tolist() == pytest.approx([1.0])
    assert stage_ratio(records, "specgate", "none", 20, 40).tolist() == pytest.approx([2.0])


def test_regret_is_what_is_missing_to_the_oracle() -> None:
    regret = result_with(none=[1.0], specgate=[1.5], oracle=[2.0]).regret()

    assert regret is not None
    assert regret.tolist() == pytest.approx([0.25])
    assert result_with(none=[1.0], specgate=[1.5]).regret() is None


def test_a_figure_is_the_median_with_its_spread() -> None:
    assert figure(np.array([3.0, 1.0, 2.0])) == {"median": 2.0, "spread": [1.0, 3.0]}


@pytest.mark.parametrize(("source", "count"), [("suffix", 11), ("head", 4), ("both", 17)], ids=str)
def test_fixed_settings_cover_the_sources_that_there_are(source: Source, count: int) -> None:
    names = [setting.name for setting in fixed_settings(source)]

    assert len(set(names)) == len(names) == count
    assert names[0] == "none"
    assert all(is_fixed(name) for name in names)


@pytest.mark.parametrize("name", ["oracle", "specgate", "sglang", "tensorrt", "vllm-schedule"])
def test_other_rules_are_no_fixed_settings(name: str) -> None:
    assert not is_fixed(name)


def test_all_rules_run_through_the_same_course() -> None:
    world = world_of(curve_of(a_token=0.05, head=0.1), tokens=60)

    records, result = hold(world, "both", Eager, seeds=2, begin=40)

    rules = {"none", "vllm-schedule", "sglang", "tensorrt", "oracle", "specgate"}
    assert rules <= records.keys() == result.speeds.keys()
    assert all(speed.shape == (2,) for speed in result.speeds.values())
    assert (result.ratio("specgate", "none") > 1.0).all()
    assert result.policy_ns.shape == (records["specgate"].drafted.size, 2)
    assert set(result.policy_ns[:, 1].tolist()) == {7_000}
    assert result.as_json()["best_fixed"] in records


def test_an_open_loop_has_no_oracle() -> None:
    course = course_of([Stage(60, 4)], per_second=0.02)

    _, result = hold(
        world_of(curve_of(a_token=0.05), course=course), "suffix", Eager, seeds=2, begin=40
    )

    assert result.as_json()["regret_to_oracle"] is None
