from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.admission.keys import KeyLimits
from gateway.admission.limits import (
    PERIOD_SECONDS,
    Standing,
    rate_headers,
    refusal,
    taken,
    wait_seconds,
)

START = 123_456.789
LIMIT = st.integers(1, 10_000)
STEPS = st.lists(
    st.tuples(st.floats(0, 90, allow_subnormal=False), st.integers(0, 20_000)), max_size=30
)


class Bucket:
    """A reference model: a level that drains, in exact arithmetic."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.level = Fraction(0)
        self.at = Fraction(START)

    def drain(self, now: float) -> None:
        passed = Fraction(now) - self.at
        self.level = max(Fraction(0), self.level - passed * self.limit / 60)
        self.at = Fraction(now)

    def fits(self, units: int, *, slack: Fraction) -> bool:
        return self.level + min(units, self.limit) <= self.limit * (1 + slack)


def remaining(arrival: float, *, now: float, limit: int) -> int:
    found = rate_headers(KeyLimits(requests_per_minute=limit), Standing(arrival, 0, 0), now=now)
    return int(found["x-ratelimit-remaining-requests"])


@given(LIMIT, STEPS)
def test_a_request_passes_when_the_bucket_has_room(
    limit: int, steps: list[tuple[float, int]]
) -> None:
    bucket, arrival, now = Bucket(limit), 0.0, START
    slack = Fraction(1, 10**6)
    for pause, units in steps:
        now += pause
        bucket.drain(now)
        passes = wait_seconds(arrival, now=now, limit=limit, units=units) == 0
        assert passes or not bucket.fits(units, slack=Fraction(0))
        assert not passes or bucket.fits(units, slack=slack)
        if passes:
            arrival = taken(arrival, now=now, limit=limit, units=units)
            bucket.level += units


@given(LIMIT, st.floats(0, 10**8))
@example(3, START)
@example(7, 1e8 + 1 / 3)
def test_the_allowance_of_a_minute_may_be_used_at_once(limit: int, now: float) -> None:
    arrival = 0.0
    for _ in range(min(limit, 100) - 1):
        arrival = taken(arrival, now=now, limit=min(limit, 100), units=1)

    assert wait_seconds(arrival, now=now, limit=min(limit, 100), units=1) == 0
    assert remaining(arrival, now=now, limit=min(limit, 100)) == 1
    arrival = taken(arrival, now=now, limit=min(limit, 100), units=1)
    assert wait_seconds(arrival, now=now, limit=min(limit, 100), units=1) > 0
    assert remaining(arrival, now=now, limit=min(limit, 100)) == 0


@given(LIMIT, st.integers(1, 20_000), st.integers(1, 20_000))
def test_after_its_wait_a_request_passes(limit: int, before: int, units: int) -> None:
    arrival = taken(0.0, now=START, limit=limit, units=before)
    wait = wait_seconds(arrival, now=START, limit=limit, units=units)

    assert wait_seconds(arrival, now=START + wait, limit=limit, units=units) == 0


def test_a_request_above_the_limit_passes_and_delays_the_next() -> None:
    wait_first = wait_seconds(0.0, now=START, limit=10, units=30)
    arrival = taken(0.0, now=START, limit=10, units=30)

    assert wait_first == 0
    assert wait_seconds(arrival, now=START, limit=10, units=1) == pytest.approx(126)


@given(LIMIT, st.integers(0, 20_000))
def test_returned_units_have_no_effect(limit: int, units: int) -> None:
    arrival = taken(START, now=START, limit=limit, units=units)

    assert taken(arrival, now=START, limit=limit, units=-units) == pytest.approx(START)


def test_no_more_than_was_taken_can_be_returned() -> None:
    assert taken(START, now=START, limit=10, units=-100) == START


@pytest.mark.parametrize(
    ("used", "left", "reset"),
    [(0, "60", "0ms"), (1, "59", "1s"), (60, "0", "1m0s"), (90, "0", "1m30s")],
    ids=["untouched", "one", "all", "overdrawn"],
)
def test_the_headers_show_what_remains(used: int, left: str, reset: str) -> None:
    arrival = taken(0.0, now=0.0, limit=60, units=used)

    found = rate_headers(KeyLimits(tokens_per_minute=60), Standing(0.0, arrival, 0), now=0.0)

    assert found == {
        "x-ratelimit-limit-tokens": "60",
        "x-ratelimit-remaining-tokens": left,
        "x-ratelimit-reset-tokens": reset,
    }


def test_an_unused_bucket_is_full_after_a_minute() -> None:
    arrival = taken(START, now=START, limit=10, units=10)

    assert remaining(arrival, now=START + PERIOD_SECONDS, limit=10) == 10


@pytest.mark.parametrize(
    ("standing", "text"),
    [
        (Standing(0, 0, 0), None),
        (Standing(0, 0, 3), "This key may run 3 requests at a time."),
        (Standing(START + 60, 0, 0), "This key may use 1 requests a minute."),
        (Standing(0, START + 60, 0), "This key may use 2 tokens a minute."),
    ],
    ids=["none", "concurrency", "requests", "tokens"],
)
def test_a_refusal_names_the_limit(standing: Standing, text: str | None) -> None:
    found = refusal(KeyLimits(1, 2, 3), standing, tokens=1, now=START)

    assert (found.message if found else None) == text
