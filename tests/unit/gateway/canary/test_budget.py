"""Second askings take at most their share of the time."""

import pytest

from gateway.canary import TimeBudget


def test_the_first_may_begin_at_once() -> None:
    assert TimeBudget(0.02).pause_seconds(0.0) == 0.0


@pytest.mark.parametrize("most", [0.02, 0.5, 1.0])
def test_the_share_of_the_time_is_kept(most: float) -> None:
    budget, now, spent = TimeBudget(most), 0.0, 0.0
    for took in (0.5, 3.0, 0.1, 20.0) * 25:
        now += budget.pause_seconds(now)
        budget.spend(now, now + took)
        now, spent = now + took, spent + took
    now += budget.pause_seconds(now)

    assert spent / now == pytest.approx(most)
