import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.policy._core import Marginals, paying, worth


@pytest.mark.parametrize(
    ("survival", "price", "expected"),
    [
        ([], 0.1, 0.0),
        ([0.9, 0.6, 0.2], 0.5, 0.5),
        ([0.9, 0.6, 0.2], 0.0, 1.7),
        ([0.9, 0.6, 0.2], 0.95, 0.0),
        ([0.5], 0.5, 0.0),
    ],
)
def test_the_gain_of_the_best_prefix(survival: list[float], price: float, expected: float) -> None:
    assert worth(survival, price) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("price", "length"), [(0.95, 0), (0.9, 1), (0.55, 2), (0.2, 2), (0.0, 3)], ids=str
)
def test_a_token_pays_while_it_survives_at_the_price(price: float, length: int) -> None:
    assert paying([0.9, 0.6, 0.1], price) == length


def settle_one_by_one(
    survival: list[float], marginals: Marginals, tokens: int, worth: float
) -> float | None:
    """As the shop does it: the surest first, until one does not pay."""
    last = math.inf
    for bought, chance in enumerate(sorted(survival, reverse=True)):
        price = worth * marginals.at(tokens + bought)
        if chance < price:
            return min(last, price)
        last = chance
    return None


@given(
    drafts=st.lists(st.lists(st.floats(0.0, 1.0), max_size=12), max_size=8),
    added=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30).map(sorted),
    tokens=st.integers(0, 12),
    worth=st.floats(0.0, 8.0),
)
@example(drafts=[[0.5, 0.5], [0.5]], added=[0.0, 0.5, 0.7], tokens=1, worth=1.0)
@example(drafts=[[0.9], [0.1]], added=[0.2], tokens=0, worth=1.0)
def test_settling_at_once_finds_the_price_that_buying_one_by_one_does(
    drafts: list[list[float]], added: list[float], tokens: int, worth: float
) -> None:
    marginals = Marginals(added)
    pool = [chance for draft in drafts for chance in draft]

    settled = marginals.settle(drafts, tokens, worth)

    assert settled == settle_one_by_one(pool, marginals, tokens, worth)


def test_what_is_no_number_is_not_bought() -> None:
    assert Marginals([0.1]).settle([[0.9, math.nan], [math.nan] * 20], 1, 1.0) == 0.1


@pytest.mark.parametrize("wrong", [None, [None], ["1"]], ids=str)
def test_what_is_no_survival_is_an_error(wrong: list[float]) -> None:
    for call in (lambda: worth(wrong, 0.5), lambda: paying(wrong, 0.5)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError):
        Marginals([0.1]).settle([wrong], 1, 1.0)


def test_a_curve_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        Marginals([])
