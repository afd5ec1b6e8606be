import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pacing import Rhythm


def after(*arrivals: tuple[float, int]) -> Rhythm:
    """The rhythm of arrivals, each so many seconds after the one before it."""
    rhythm, now = Rhythm(), 100.0
    for gap, tokens in arrivals:
        now += gap
        rhythm = rhythm.after(tokens, now)
    return rhythm


def test_a_stream_that_has_only_begun_has_no_rate_and_is_even() -> None:
    rhythm = after((0.0, 5))

    assert rhythm.tokens_per_second is None
    assert rhythm.is_even


def test_the_rate_is_the_streams_own() -> None:
    rhythm = after((0.0, 1), *[(0.1, 3), (0.1, 5)] * 20)

    assert rhythm.tokens_per_second == pytest.approx(40, rel=0.05)


def test_a_stall_says_little_of_the_rate() -> None:
    rhythm = after((0.0, 1), *[(0.02, 1)] * 100, (5.0, 1))

    assert rhythm.tokens_per_second == pytest.approx(50, rel=0.1)


def test_the_rate_follows_a_stream_that_slows_down() -> None:
    rhythm = after((0.0, 1), *[(0.02, 1)] * 100, *[(0.2, 1)] * 30)

    assert rhythm.tokens_per_second == pytest.approx(5, rel=0.2)


@pytest.mark.parametrize(
    "arrivals",
    [
        [(0.02, 1)] * 50,
        [(0.016, 1), (0.024, 1)] * 25,
        [(1.0, 1)] * 5,
        [(0.0001, 1), (0.003, 1)] * 20,
    ],
    ids=["metronome", "jitter", "slow", "fast"],
)
def test_one_token_at_a_time_comes_evenly(arrivals: list[tuple[float, int]]) -> None:
    assert after((0.0, 1), *arrivals).is_even


def test_a_stall_does_not_make_a_stream_uneven() -> None:
    assert after((0.0, 1), *[(0.02, 1)] * 10, (1.0, 1), *[(0.02, 1)] * 10).is_even


def test_a_stream_that_only_becomes_faster_or_slower_comes_evenly() -> None:
    slowing = [(0.01 * 1.015**number, 1) for number in range(150)]

    assert after((0.0, 1), *slowing).is_even
    assert after((0.0, 1), *reversed(slowing)).is_even


@pytest.mark.parametrize(
    "arrivals",
    [[(0.08, 4)] * 5, [(0.02, 1), (0.02, 6)] * 5, [(0.0, 1), (0.0, 1), (0.06, 1)] * 5],
    ids=["equal-bursts-that-are-seen", "changing-bursts", "clumps"],
)
def test_bursts_come_unevenly(arrivals: list[tuple[float, int]]) -> None:
    assert not after((0.0, 1), *arrivals).is_even


def test_equal_bursts_that_no_eye_sees_are_even_in_the_end() -> None:
    assert after((0.0, 4), *[(0.01, 4)] * 20).is_even


def test_a_stream_is_forgiven_after_a_while() -> None:
    uneven = [(0.02, 1), (0.02, 6)] * 5

    assert not after((0.0, 1), *uneven, *[(0.02, 1)] * 50).is_even
    assert after((0.0, 1), *uneven, *[(0.02, 1)] * 150).is_even


def test_arrivals_without_tokens_say_nothing() -> None:
    rhythm = after((0.0, 0), (0.02, 0), (0.02, 0))

    assert rhythm.tokens_per_second is None
    assert rhythm.is_even


@given(st.lists(st.tuples(st.floats(-1e4, 1e4), st.integers(0, 100)), max_size=40))
def test_whatever_the_clock_does_the_rate_is_a_number(arrivals: list[tuple[float, int]]) -> None:
    rate = after(*arrivals).tokens_per_second

    assert rate is None or 0 < rate < float("inf")
