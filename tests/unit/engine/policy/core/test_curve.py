import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine._core.policy import Curve

CONCAVE = [(1, 10.0), (2, 12.0), (8, 15.0), (32, 21.0)]
STAIRS = [(1, 10.0), (8, 10.0), (9, 14.0), (16, 14.0), (17, 18.0)]


def rising(added: list[float]) -> Curve:
    """The curve in which each further token adds so much."""
    times = [1.0]
    for more in added:
        times.append(times[-1] + more)
    return Curve(list(enumerate(times)))


@pytest.mark.parametrize(
    ("points", "times"),
    [
        ([(1, 10.0), (5, 14.0), (9, 26.0)], {1: 10.0, 2: 11.0, 7: 20.0, 11: 32.0}),
        ([(1, 3.0), (3, 2.0), (5, 4.0)], {1: 3.0, 3: 3.0, 4: 3.5}),
        ([(4, 3.0)], {1: 3.0, 4: 3.0, 9: 3.0}),
    ],
    ids=["straight between points", "never falling", "one point"],
)
def test_what_a_step_takes(points: list[tuple[float, float]], times: dict[int, float]) -> None:
    curve = Curve(points)

    assert {tokens: curve.time(tokens) for tokens in times} == pytest.approx(times)


def test_a_curve_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Curve([])


@given(
    points=st.sampled_from([CONCAVE, STAIRS, [(1, 3.0)]]),
    tokens=st.integers(1, 20),
    most=st.integers(1, 30),
)
def test_the_cheapest_is_the_lowest_mean_of_any_number(
    points: list[tuple[float, float]], tokens: int, most: int
) -> None:
    curve = Curve(points)

    means = [(curve.time(tokens + n) - curve.time(tokens)) / n for n in range(1, most + 1)]

    assert curve.cheapest(tokens, most) == pytest.approx(min(means), abs=1e-12)
    assert curve.cheapest(tokens, 0) == 0.0


def test_beside_tokens_that_may_come_a_step_takes_the_mean() -> None:
    curve = Curve(STAIRS)

    beside = curve.beside([0.0, 8.0])

    assert [beside.time(tokens) for tokens in (1, 8, 9)] == [
        (curve.time(tokens) + curve.time(tokens + 8)) / 2 for tokens in (1, 8, 9)
    ]


def gain(chances: list[float], curve: Curve, tokens: int, worth: float) -> float:
    return sum(chances) - worth * (curve.time(tokens + len(chances)) - curve.time(tokens))


drafts_of_rows = st.lists(st.lists(st.floats(0.0, 1.0), max_size=12), max_size=8)
curves = st.one_of(
    st.sampled_from([Curve(CONCAVE), Curve(STAIRS)]),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30).map(rising),
)


@given(
    drafts=drafts_of_rows,
    curve=curves,
    tokens=st.integers(1, 12),
    worth=st.floats(0.0, 8.0),
    least=st.floats(0.0, 0.5),
    most=st.integers(0, 20),
)
@example(
    drafts=[[0.5, 0.5], [0.5]],
    curve=rising([0.0, 0.5, 0.7]),
    tokens=1,
    worth=1.0,
    least=0.0,
    most=9,
)
@example(drafts=[[0.3] * 7], curve=Curve(STAIRS), tokens=8, worth=0.2, least=0.0, most=20)
def test_what_is_bought_brings_more_than_any_other_number_of_tokens(
    drafts: list[list[float]], curve: Curve, tokens: int, worth: float, least: float, most: int
) -> None:
    pool = sorted((chance for draft in drafts for chance in draft), reverse=True)

    settled, gained = curve.settle(drafts, tokens, worth=worth, least=least, reach=8, most=most)

    price = 0.0 if settled is None else settled
    bought = [chance for chance in pool if chance >= price]
    able = [chance for chance in pool if chance >= least]
    found = gain(bought, curve, tokens, worth)
    assert bought == able[: len(bought)]
    assert len(bought) <= most
    assert found == pytest.approx(gained, abs=1e-9)
    for count in range(min(len(able), most) + 1):
        if 0 < count < len(able) and able[count - 1] == able[count]:
            continue  # equals stay together
        assert found >= gain(able[:count], curve, tokens, worth) - 1e-9


def test_where_a_few_tokens_cost_most_a_lone_one_does_not_pay_and_many_do() -> None:
    curve = Curve(CONCAVE)

    few, _ = curve.settle([[0.3]], 1, worth=0.2, least=0.0, reach=31)
    many, _ = curve.settle([[0.3] * 20], 1, worth=0.2, least=0.0, reach=31)

    assert few is not None
    assert few > 0.3
    assert many is None


def test_the_price_is_what_further_tokens_would_have_to_bring() -> None:
    curve = Curve([(1, 1.0), (11, 2.0), (21, 5.0)])

    price, _ = curve.settle([[0.9] * 10, [0.2] * 5], 1, worth=1.0, least=0.0, reach=5)

    assert price == pytest.approx(0.3)


def test_what_is_no_number_is_not_bought() -> None:
    curve = rising([0.1])

    price, _ = curve.settle([[0.9, math.nan], [math.nan] * 20], 1, worth=1.0, least=0.0, reach=4)

    assert price == pytest.approx(0.1)


@pytest.mark.parametrize("wrong", [None, [None], ["1"]], ids=str)
def test_what_is_no_survival_is_an_error(wrong: list[float]) -> None:
    with pytest.raises(TypeError):
        rising([0.1]).settle([wrong], 1, worth=1.0, least=0.0, reach=4)
