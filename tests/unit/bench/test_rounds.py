import json

import pytest

from bench.rounds import Json, put_summary, ratios_of, rotated, rounded, summary_of


def test_a_figure_has_its_median_and_its_spread_beside_it() -> None:
    found: Json = {}

    put_summary(found, "wait_ms", summary_of([3.0, 1.0, 2.0]))

    assert found == {"wait_ms": 2.0, "wait_ms_spread": [1.0, 3.0]}


def test_a_figure_that_no_round_has_is_there_and_empty() -> None:
    found: Json = {}

    put_summary(found, "wait_ms", summary_of([]))

    assert found == {"wait_ms": None, "wait_ms_spread": None}


def test_rounds_are_compared_one_by_one() -> None:
    assert ratios_of([1.0, 10.0, 1.5], [2.0, 20.0, 2.0]) == [0.5, 0.5, 0.75]

    with pytest.raises(ValueError, match="shorter"):
        ratios_of([1.0, 2.0], [1.0])


def test_each_is_the_first_in_some_round() -> None:
    assert [rotated("abc", number) for number in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


def test_numbers_are_short_and_fit_into_json_however_deep() -> None:
    line = rounded({"a": [1.23456, (2345.6, None)], "b": float("nan"), "c": (12_345, "x")})

    assert json.loads(json.dumps(line)) == {
        "a": [1.2346, [2346, None]],
        "b": None,
        "c": [12_345, "x"],
    }
