import pytest

from engine.policy import Pace


def paced(*tokens: int) -> Pace:
    pace = Pace()
    for step in tokens:
        pace.learn(step)
    return pace


def test_at_first_a_token_counts_one() -> None:
    assert Pace().count(3.0) == pytest.approx(1.0)


def test_in_a_request_that_gets_on_fast_it_counts_less() -> None:
    assert paced(*[8] * 30).count(2.0) == pytest.approx(0.33, abs=0.03)
    assert paced(*[1] * 30).count(2.0) == pytest.approx(1.45, abs=0.03)


def test_it_follows_a_request_within_a_few_steps() -> None:
    turned = paced(*[1] * 30, *[8] * 4)

    assert turned.count(2.0) < 0.5
