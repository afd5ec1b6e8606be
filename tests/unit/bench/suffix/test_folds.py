from itertools import chain

import numpy as np
import pytest

from bench.suffix.datasets import DataSet, Request
from bench.suffix.folds import compare, folds_of, made_up, summary
from bench.suffix.replay import Figures


def requests(count: int, *groups: str) -> list[Request]:
    text = np.arange(600, dtype=np.int32)
    return [Request(text, text, is_last=True, groups=groups) for _ in range(count)]


def dataset(name: str, *parts: list[Request]) -> DataSet:
    return DataSet(name, is_edit=True, requests=[*chain(*parts)], left_out=0)


def at(accepted: float, drafted: float) -> Figures:
    return Figures(steps=1, accepted=accepted, drafted=drafted)


def test_each_set_kind_and_project_is_left_out_once() -> None:
    django = requests(2, "kind swe", "project django")
    sympy = requests(2, "kind swe", "project sympy")
    chat = requests(2, "kind chat")

    folds = folds_of([dataset("one", django, sympy[:1]), dataset("two", sympy[1:], chat)])

    assert [fold.held_out.name for fold in folds] == [
        "set one",
        "set two",
        "kind chat",
        "kind swe",
        "project django",
        "project sympy",
    ]
    assert folds[3].held_out.requests == [*django, *sympy]
    assert folds[3].fitted == chat


def test_a_kind_that_is_a_whole_set_is_not_a_fold_of_its_own() -> None:
    folds = folds_of(
        [dataset("one", requests(2, "kind code")), dataset("two", requests(2, "kind chat"))]
    )

    assert [fold.held_out.name for fold in folds] == ["set one", "set two"]


def test_a_small_fold_is_not_compared() -> None:
    folds = folds_of([dataset("one", requests(2)), dataset("two", requests(1))])

    assert [fold.held_out.name for fold in folds] == ["set one"]


def test_a_single_set_leaves_nothing_to_fit_to() -> None:
    assert folds_of([dataset("one", requests(2))]) == []


def test_a_made_up_fold_leaves_out_nothing_that_is_real() -> None:
    every = requests(2)

    folds = made_up([dataset("one", every)])

    assert all(fold.fitted == every for fold in folds)


def test_accepted_tokens_are_compared_at_shares_of_the_peer_s_drafted_ones() -> None:
    found = compare([at(1.0, 0.85), at(1.5, 1.15)], at(1.0, 1.0))

    assert found == {"equal": pytest.approx(1.25), "less": pytest.approx(1.0)}


def test_the_worst_fold_is_named() -> None:
    folds: dict[str, dict[str, dict[str, float | None]]] = {
        "good": {"default": {"equal": 1.2, "less": 1.1}},
        "bad": {"default": {"equal": 1.0, "less": 0.9}},
        "unknown": {"default": {"equal": 1.1, "less": None}},
    }

    found = summary(folds)

    assert found["default_equal"] == {
        "mean": pytest.approx(1.1),
        "worst": 1.0,
        "worst_fold": "bad",
    }
    assert found["default_less"] == {"mean": 1.0, "worst": 0.9, "worst_fold": "bad"}
