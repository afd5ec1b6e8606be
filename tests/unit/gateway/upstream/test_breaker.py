from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.breaker import Breaker, BreakerState

CLOSED, OPEN, TRIAL = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.TRIAL


def opened(*, at: float = 0.0) -> Breaker:
    breaker = Breaker(threshold=3, open_seconds=1, max_open_seconds=5)
    for _ in range(3):
        breaker.begin(at)
        breaker.fail(at)
    return breaker


def fail_trial(breaker: Breaker, now: float) -> None:
    breaker.begin(now)
    breaker.fail(now)


def test_consecutive_failures_open_it() -> None:
    breaker = Breaker(threshold=3, open_seconds=1, max_open_seconds=5)
    for _ in range(5):  # a success resets the count
        breaker.fail(0)
        breaker.fail(0)
        assert breaker.state(0) is CLOSED
        breaker.succeed()

    for _ in range(3):
        breaker.fail(0)

    assert breaker.state(0) is OPEN


def test_after_the_pause_one_request_decides() -> None:
    breaker = opened()
    assert (breaker.state(0.99), breaker.state(1.0)) == (OPEN, TRIAL)

    breaker.begin(1.0)

    assert breaker.state(1.0) is OPEN
    breaker.succeed()
    assert breaker.state(1.0) is CLOSED


def test_each_failed_trial_doubles_the_pause_up_to_the_limit() -> None:
    breaker, now, pauses = opened(), 0.0, []
    for _ in range(5):
        pause = next(p for p in (1, 2, 4, 5) if breaker.state(now + p) is TRIAL)
        pauses.append(pause)
        now += pause
        fail_trial(breaker, now)

    assert pauses == [1, 2, 4, 5, 5]


def test_an_abandoned_trial_lets_another_try() -> None:
    breaker = opened()
    breaker.begin(1)

    breaker.abandon()

    assert breaker.state(1) is TRIAL


def test_a_request_that_began_before_it_opened_does_not_prolong_the_pause() -> None:
    breaker = opened()

    breaker.fail(0.5)

    assert breaker.state(1) is TRIAL


def test_years_of_failed_trials_do_not_overflow() -> None:
    breaker, now = opened(), 0.0
    for _ in range(2000):
        now += 5
        fail_trial(breaker, now)

    assert breaker.state(now + 5) is TRIAL


@given(st.lists(st.sampled_from(["begin", "succeed", "fail", "abandon"]), max_size=40))
def test_it_never_stays_open_beyond_the_limit(events: list[str]) -> None:
    breaker, now = Breaker(threshold=2, open_seconds=1, max_open_seconds=5), 0.0
    for event in events:
        now += 0.5
        if event in ("begin", "fail"):
            getattr(breaker, event)(now)
        else:
            getattr(breaker, event)()
    breaker.abandon()

    assert breaker.state(now + 5) is not OPEN
