import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pacing import Rhythm


def after(*arrivals: tuple[float, int]) -> Rhythm:
    """The rhythm of arrivals, each (seconds since the last, tokens)."""
    rhythm, now = Rhythm(), 100.0
    for gap, tokens in arrivals:
        now += gap
        rhythm = rhythm.after(tokens, now)
    return rhythm


UNEVEN = [(0.02, 1), (0.02, 6)] * 5
SLOWING = [(0.01 * 1.015**number, 1) for number in range(150)]


@pytest.mark.parametrize(
    ("arrivals", "rate"),
    [
        ([], None),
        ([(0.02, 0)] * 2, None),
        ([(0.1, 3), (0.1, 5)] * 20, 40),
        ([*[(0.02, 1)] * 100, (5.0, 1)], 50),
        ([*[(0.02, 1)] * 100, *[(0.2, 1)] * 30], 5),
    ],
    ids=["begun", "no-tokens", "steady", "stall", "slows-down"],
)
def test_the_rate_is_that_of_the_recent_past(
    arrivals: list[tuple[float, int]], rate: float | None
) -> None:
    found = after((0.0, 1), *arrivals).tokens_per_second

    assert found == (None if rate is None else pytest.approx(rate, rel=0.2))


@pytest.mark.parametrize(
    ("arrivals", "is_even"),
    [
        ([(0.02, 1)] * 50, True),
        ([(0.016, 1), (0.024, 1)] * 25, True),
        ([(1.0, 1)] * 5, True),
        ([(0.0001, 1), (0.003, 1)] * 20, True),
        ([*[(0.02, 1)] * 10, (1.0, 1), *[(0.02, 1)] * 10], True),
        (SLOWING, True),
        (SLOWING[::-1], True),
        ([(0.08, 4)] * 5, False),
        (UNEVEN, False),
        ([(0.0, 1), (0.0, 1), (0.06, 1)] * 5, False),
        ([*UNEVEN, *[(0.02, 1)] * 50], False),
        ([*UNEVEN, *[(0.02, 1)] * 150], True),
    ],
    ids=[
        *("metronome", "jitter", "slow", "fast", "stall", "slowing", "quickening"),
        *("equal-bursts", "bursts", "clumps", "soon-after", "long-after"),
    ],
)
def test_a_stream_is_uneven_if_text_is_visibly_early_or_late(
    arrivals: list[tuple[float, int]], is_even: bool
) -> None:
    assert after((0.0, 1), *arrivals).is_even is is_even


def test_counts_that_go_back_tell_nothing() -> None:
    with_them = after((0.02, 3), (0.02, 1), (0.02, -1), (0.02, 1))
    without = after((0.02, 3), (0.02, 1), (0.04, 1))

    assert with_them.tokens_per_second == pytest.approx(without.tokens_per_second)


def test_bursts_too_small_to_see_are_even() -> None:
    assert after((0.0, 4), *[(0.01, 4)] * 20).is_even


@given(st.lists(st.tuples(st.floats(-1e4, 1e4), st.integers(-100, 100)), max_size=40))
def test_the_rate_is_finite_whatever_clock_and_counts_do(arrivals: list[tuple[float, int]]) -> None:
    rate = after(*arrivals).tokens_per_second

    assert rate is None or 0 < rate < float("inf")
