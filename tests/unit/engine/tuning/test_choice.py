import pytest

from engine.tuning.choice import best_by_load, choose, finalists, medians, noise, scores

GOODPUT = {"off": {1: 50.0, 8: 300.0}, "suffix": {1: 100.0, 8: 300.0}, "head": {1: 80.0, 8: 240.0}}


def test_a_score_is_the_geometric_mean_of_shares_of_the_best() -> None:
    found = scores(GOODPUT)

    assert found["suffix"] == pytest.approx(1.0)
    assert found["off"] == pytest.approx(0.5**0.5)
    assert found["head"] == pytest.approx(0.8)


def test_finalists_are_the_best_ones_in_their_order() -> None:
    assert finalists(GOODPUT, 2) == ["suffix", "head"]


def test_the_fastest_is_named_for_each_concurrency() -> None:
    assert best_by_load({"off": {1: 1.0, 8: 9.0}, "head": {1: 2.0, 8: 8.0}}) == {
        1: "head",
        8: "off",
    }


def test_a_clear_winner_is_chosen() -> None:
    assert choose(GOODPUT, {}, list(GOODPUT)) == "suffix"


@pytest.mark.parametrize(
    ("second", "chosen"),
    [
        pytest.param(99.5, "suffix", id="level, simpler"),
        pytest.param(98.0, "head", id="slower by more than the noise"),
    ],
)
def test_of_level_variants_the_simplest_is_chosen(second: float, chosen: str) -> None:
    rounds = {
        "suffix": {1: [second, second, second]},
        "head": {1: [100.0, 100.0, 100.0]},
    }

    assert choose(medians(rounds), rounds, ["off", "suffix", "head"]) == chosen


def test_rounds_that_differ_much_make_more_of_a_difference_noise() -> None:
    rounds = {"suffix": {1: [90.0, 106.0, 98.0]}, "head": {1: [100.0, 100.0, 100.0]}}

    assert noise(rounds, "suffix", "head") == 0.03
    assert choose(medians(rounds), rounds, ["suffix", "head"]) == "suffix"


def test_one_round_says_nothing_of_noise() -> None:
    assert noise({"a": {1: [1.0]}, "b": {1: [2.0]}}, "a", "b") == 0.01


def test_a_slow_round_of_the_machine_is_no_noise_of_a_ratio() -> None:
    rounds = {"a": {1: [50.0, 100.0, 75.0]}, "b": {1: [60.0, 120.0, 90.0]}}

    assert noise(rounds, "a", "b") == 0.01
