import pytest

from engine.policy import StepCost

POINTS = [(1, 10.0), (5, 14.0), (9, 26.0)]  # slopes of 0.1 and 0.3 of a one-token step


def test_time_is_in_steps_of_one_token() -> None:
    cost = StepCost(POINTS, longest=9)

    assert [cost.time(tokens) for tokens in (1, 3, 5, 9)] == pytest.approx([1.0, 1.2, 1.4, 2.6])


def test_beyond_the_last_point_it_goes_on_with_the_last_slope() -> None:
    short, long = StepCost(POINTS, longest=4), StepCost(POINTS, longest=40)

    assert long.time(19) == pytest.approx(5.6)
    assert short.time(3) == pytest.approx(long.time(3))


def test_marginal_is_what_each_token_adds() -> None:
    cost = StepCost(POINTS, longest=30)

    added = [cost.marginal(tokens) for tokens in range(3, 7)]

    assert added == pytest.approx([0.1, 0.1, 0.3, 0.3])
    assert cost.time(3) + sum(added) == pytest.approx(cost.time(7))


def test_marginal_beyond_the_longest_keeps_the_last_slope() -> None:
    cost = StepCost(POINTS, longest=6)

    assert [cost.marginal(tokens) for tokens in (5, 6, 7, 50)] == pytest.approx([0.3] * 4)


def test_a_curve_that_is_not_convex_is_replaced_by_the_one_below_it() -> None:
    bumpy = StepCost([(1, 1.0), (3, 3.0), (5, 3.0), (7, 7.0)], longest=7)

    marginal = [bumpy.marginal(tokens) for tokens in range(1, 7)]

    assert marginal == pytest.approx([0.5, 0.5, 0.5, 0.5, 2.0, 2.0])


def test_one_point_makes_tokens_free() -> None:
    cost = StepCost([(1, 3.0)], longest=8)

    assert cost.time(8) == 1.0
    assert cost.marginal(1) == 0.0


@pytest.mark.parametrize(
    "points",
    [[], [(2, 1.0)], [(1, 0.0)], [(1, 1.0), (1, 2.0)], [(1, 1.0), (4, 0.5)]],
    ids=["none", "no first", "no time", "same tokens", "falling"],
)
def test_points_that_are_no_curve_are_refused(points: list[tuple[int, float]]) -> None:
    with pytest.raises(ValueError, match="must"):
        StepCost(points, longest=8)
