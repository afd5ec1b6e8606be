from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.policy import Price, StepCost

LINEAR = [(1, 1.0), (101, 6.0)]  # 0.05 of a one-token step for each further token


def price(points: list[tuple[int, float]] = LINEAR) -> Price:
    return Price(StepCost(points, longest=400), margin=1.0)


def test_a_lone_plain_request_pays_the_marginal_time() -> None:
    assert price().floor(1) == pytest.approx(0.05)


def test_a_margin_makes_every_token_dearer() -> None:
    cost = StepCost(LINEAR, longest=400)

    assert Price(cost, margin=2.0).floor(1) == pytest.approx(2 * price().floor(1))


def test_the_price_rises_with_the_rows() -> None:
    prices = [price().floor(rows) for rows in (1, 2, 8, 32)]

    assert prices == sorted(prices)
    assert prices[-1] == pytest.approx(32 / (1 + 31 * 0.05) * 0.05)


def test_the_price_follows_the_acceptance_length() -> None:
    lucky, unlucky = price(), price()
    for _ in range(200):
        lucky.learn(1, 8, 9)
        unlucky.learn(1, 8, 1)

    assert lucky.goodput(1) == pytest.approx(9 / 1.4, rel=0.01)
    assert unlucky.goodput(1) == pytest.approx(1 / 1.4, rel=0.01)
    assert lucky.floor(1) > unlucky.floor(1)


def test_a_step_without_rows_teaches_nothing_and_buys_nothing() -> None:
    idle = price()
    idle.learn(0, 0, 0)

    assert idle.floor(1) == price().floor(1)
    assert idle.floor(0) == 1.0


def test_free_tokens_still_have_a_least_price() -> None:
    assert price([(1, 1.0)]).floor(64) == 0.01


def test_free_tokens_are_all_bought() -> None:
    survival = [1.0 - 0.0049 * step for step in range(200)]

    assert price([(1, 1.0)]).settle([survival], 64) <= 0.02


def test_dear_tokens_are_not_bought_at_all() -> None:
    assert price([(1, 1.0), (2, 2.0)]).settle([[0.9] * 5], 1) > 0.9


def test_without_candidates_it_is_the_floor() -> None:
    assert price().settle([], 3) == price().floor(3)


survivals = st.lists(st.floats(0.0, 1.0, width=32), min_size=1, max_size=40)


@given(survivals, st.integers(1, 16))
def test_what_is_bought_pays_and_what_is_left_does_not(values: list[float], rows: int) -> None:
    cost = StepCost([(1, 1.0), (9, 1.2), (17, 2.0), (65, 9.0)], longest=400)
    settled = Price(cost, margin=1.0)
    at = settled.settle([values[:3], values[3:]], rows)

    bought = sorted((s for s in values if s >= at), reverse=True)
    left = [s for s in values if s < at]

    def dear(token: int) -> float:
        return settled.goodput(rows) * cost.marginal(rows + token)

    if len(set(values)) == len(values):  # equals are bought together
        assert all(chance >= dear(token) - 1e-9 for token, chance in enumerate(bought))
    if left:
        assert max(left) <= max(dear(len(bought)), settled.floor(rows)) + 1e-9


def test_settling_finds_the_best_of_all_subsets() -> None:
    """By brute force: the gain in tokens over their price in time is largest where it says."""
    cost = StepCost([(1, 1.0), (4, 1.1), (6, 1.5), (12, 4.0)], longest=40)
    settled = Price(cost, margin=1.0)
    survival = [0.9, 0.55, 0.5, 0.3, 0.2, 0.1, 0.05]
    worth = settled.goodput(2)

    def gain(chosen: tuple[bool, ...]) -> float:
        brought = sum(s for s, taken in zip(survival, chosen, strict=True) if taken)
        return brought - worth * sum(cost.marginal(2 + token) for token in range(sum(chosen)))

    best = max(product((False, True), repeat=len(survival)), key=gain)
    at = settled.settle([survival], 2)
    taken = tuple(s >= at for s in survival)

    assert gain(taken) == pytest.approx(gain(best))
