import json
from collections.abc import Mapping
from typing import Any

import pytest

from bench.engine.counts import Counts
from bench.engine.measure import BatchFigures
from bench.engine.report import report


def counts(*speeds: float) -> list[Counts]:
    return [
        Counts(requests=2, tokens=100, seconds=100 / speed, decode_seconds=98 / (2 * speed))
        for speed in speeds
    ]


FIGURES = {
    1: BatchFigures(
        counts={
            "chat": {
                "none": counts(50, 10, 40),
                "arctic_suffix": counts(100, 10, 80),
                "suffix": counts(75, 20, 60),
            }
        },
        sessions={"chat": 3},
        idle_cores=0.01,
    )
}


def told(figures: Mapping[int, BatchFigures], same: Mapping[str, str]) -> Any:
    return json.loads(json.dumps(report(figures, same)))


def test_ratios_are_taken_round_by_round() -> None:
    found = told(FIGURES, {})["ratios"]["1"]["chat"]

    assert found["none"] == 1.0
    assert found["suffix"] == pytest.approx(1.5)
    assert found["suffix_spread"] == pytest.approx([1.5, 2.0])


def test_decoding_is_reported_without_prefill() -> None:
    slow_to_begin = [Counts(requests=2, tokens=100, seconds=4.0, decode_seconds=1.0)]
    quick = [Counts(requests=2, tokens=100, seconds=3.5, decode_seconds=0.5)]
    figures = {1: BatchFigures(counts={"chat": {"none": slow_to_begin, "hybrid": quick}})}

    found = told(figures, {})

    assert found["ratios"]["1"]["chat"]["hybrid"] == pytest.approx(8 / 7)
    assert found["decoding_ratios"]["1"]["chat"]["hybrid"] == pytest.approx(2.0)


def test_a_worker_of_two_methods_is_reported_under_both() -> None:
    found = told(FIGURES, {"hybrid": "suffix"})

    assert found["ratios"]["1"]["chat"]["hybrid"] == found["ratios"]["1"]["chat"]["suffix"]
    assert found["hybrid_to"]["1"]["chat"]["arctic_suffix"] == pytest.approx(0.75)
    assert found["hybrid_to"]["1"]["chat"]["arctic_suffix_spread"] == pytest.approx([0.75, 2.0])
    assert found["measured_once"] == {"hybrid": "suffix"}


def test_without_a_method_to_compare_with_there_is_no_ratio() -> None:
    figures = {1: BatchFigures(counts={"chat": {"ngram": counts(50)}})}

    found = told(figures, {})

    assert found["ratios"]["1"]["chat"] == {}
    assert found["hybrid_to"]["1"]["chat"] == {}
    assert found["own_cpu_us_per_step"]["1"] is None


def test_own_time_is_a_mean_over_steps_of_every_workload() -> None:
    quick, slow = Counts(own_seconds=0.001, own_steps=9), Counts(own_seconds=0.001, own_steps=1)
    figures = {4: BatchFigures(counts={"a": {"hybrid": [quick]}, "b": {"hybrid": [slow]}})}
    for counts in (quick, slow):
        counts.tokens, counts.seconds = 1, 1.0
        counts.steps["plain"] = 1

    found = told(figures, {})

    assert found["own_cpu_us_per_step"]["4"] == pytest.approx(200.0)
    assert found["own_cpu_us_per_step_by_workload"]["4"]["b"] == pytest.approx(1000.0)
