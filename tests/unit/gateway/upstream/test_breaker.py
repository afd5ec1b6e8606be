from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.breaker import Breaker, BreakerState

CLOSED, OPEN, TRIAL = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.TRIAL


def closed() -> Breaker:
    return Breaker(threshold=3, open_seconds=1, max_open_seconds=5)


def opened() -> Breaker:
    breaker = closed()
    for _ in range(3):
        breaker.begin(0)
        breaker.fail(0)
    return breaker


def test_consecutive_failures_open_it() -> None:
    breaker = closed()
    for _ in range(5):  # a success resets the count
        breaker.fail(0)
        breaker.fail(0)
        assert breaker.state(0) is CLOSED
        breaker.succeed()

    assert opened().state(0) is OPEN


def test_after_the_pause_one_request_decides() -> None:
    breaker = opened()
    breaker.fail(0.5)  # began before it opened: does not prolong the pause
    assert (breaker.state(0.99), breaker.state(1.0)) == (OPEN, TRIAL)
    breaker.begin(1.0)
    assert breaker.state(1.0) is OPEN

    breaker.abandon()
    assert breaker.state(1.0) is TRIAL
    breaker.begin(1.0)
    breaker.succeed()
    assert breaker.state(1.0) is CLOSED


def test_each_failed_trial_doubles_the_pause_up_to_the_limit() -> None:
    breaker, now, pauses = opened(), 0.0, []
    for _ in range(2000):
        pause = next(p for p in (1, 2, 4, 5) if breaker.state(now + p) is TRIAL)
        pauses.append(pause)
        now += pause
        breaker.begin(now)
        breaker.fail(now)

    assert pauses == [1, 2, 4, *[5] * 1997]


@given(st.lists(st.sampled_from(["begin", "succeed", "fail", "abandon"]), max_size=40))
def test_it_never_stays_open_beyond_the_limit(events: list[str]) -> None:
    breaker, now = closed(), 0.0
    for event in events:
        now += 0.5
        getattr(breaker, event)(*([now] if event in ("begin", "fail") else []))
    breaker.abandon()

    assert breaker.state(now + 5) is not OPEN
