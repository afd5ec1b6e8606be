from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import (
    UpstreamError,
    WorkerBusyError,
    WorkerLeftError,
    WorkerLostError,
    WorkerTimeoutError,
)
from gateway.types import WorkerId
from gateway.upstream import EjectionPolicy, Failover, Outlier, RetryBudget

A, B = WorkerId("a"), WorkerId("b")
SENT = WorkerLostError("gone", sent=True)
UNSENT = WorkerLostError("refused", sent=False)
BAD = UpstreamError("500")


def sound() -> Outlier:
    return Outlier(EjectionPolicy(failures=3, base_seconds=1, max_seconds=5))


def fail(outlier: Outlier, now: float = 0, *, trial: int | None = None) -> bool:
    return outlier.fail(trial, now, may_eject=True)


def ejected() -> Outlier:
    outlier = sound()
    assert [fail(outlier) for _ in range(3)] == [False, False, True]
    return outlier


def test_only_consecutive_failures_eject_a_worker() -> None:
    outlier = sound()
    for _ in range(5):
        assert not fail(outlier)
        assert not fail(outlier)
        assert not outlier.succeed(None, 0)

    assert outlier.accepts(0)
    assert not ejected().accepts(0)


def test_a_worker_that_is_needed_is_ejected_once_it_is_not() -> None:
    outlier = sound()
    for _ in range(5):
        assert not outlier.fail(None, 0, may_eject=False)

    assert outlier.accepts(0)
    assert fail(outlier)


def test_after_its_time_one_request_decides() -> None:
    outlier = ejected()
    assert not outlier.accepts(0.99)
    trial = outlier.begin(1.0)
    assert trial == 1
    assert not outlier.accepts(1.0)

    assert outlier.succeed(trial, 1.5)
    assert outlier.accepts(1.5)
    assert not fail(outlier, 1.5)  # the count begins again


def test_requests_that_began_earlier_decide_nothing() -> None:
    outlier = ejected()

    assert not outlier.succeed(None, 0.5)
    assert not fail(outlier, 0.5)
    outlier.abandon(None)
    assert not outlier.accepts(0.99)

    first = outlier.begin(1.0)
    outlier.abandon(None)
    assert not outlier.succeed(None, 1.1)
    assert not outlier.accepts(1.1)
    assert fail(outlier, 1.2, trial=first)

    second = outlier.begin(3.2)
    for _ in range(2):  # of an ejection that is over
        assert not outlier.succeed(first, 3.3)
        assert not fail(outlier, 3.3, trial=first)
        outlier.abandon(first)
    assert not outlier.accepts(3.3)
    assert outlier.succeed(second, 3.4)


def test_a_trial_without_a_result_makes_room_for_another() -> None:
    outlier = ejected()
    outlier.abandon(outlier.begin(1.0))

    assert outlier.accepts(1.0)


def test_a_long_trial_does_not_keep_the_worker_out() -> None:
    outlier = ejected()
    stream = outlier.begin(1.0)
    assert not outlier.accepts(1.99)

    assert outlier.accepts(2.0)
    assert outlier.succeed(outlier.begin(2.0), 2.5)
    assert not fail(outlier, 60.0, trial=stream)  # by then it is a request like any other


def test_each_ejection_is_twice_as_long_up_to_the_limit() -> None:
    outlier, now, lengths = ejected(), 0.0, []
    for _ in range(2000):
        lengths.append(outlier.ejection_seconds)
        now += outlier.ejection_seconds
        assert fail(outlier, now, trial=outlier.begin(now))

    assert lengths == [1, 2, 4, *[5] * 1997]
    assert outlier.ejections == 2001


@pytest.mark.parametrize(("good_seconds", "length"), [(0, 4), (4.9, 4), (5, 2), (10, 1), (1000, 1)])
def test_time_in_service_shortens_the_next_ejection(good_seconds: float, length: float) -> None:
    outlier = ejected()
    fail(outlier, 1, trial=outlier.begin(1))
    outlier.succeed(outlier.begin(3), 3)
    for _ in range(3):
        fail(outlier, 3 + good_seconds)

    assert outlier.ejection_seconds == length


@given(st.lists(st.sampled_from(["begin", "succeed", "fail", "abandon"]), max_size=40))
def test_a_worker_is_never_out_for_longer_than_the_limit(events: list[str]) -> None:
    outlier, now, trial = sound(), 0.0, None
    for event in events:
        now += 0.5
        match event:
            case "begin" if outlier.accepts(now):
                trial = outlier.begin(now)
            case "succeed":
                outlier.succeed(trial, now)
            case "fail":
                fail(outlier, now, trial=trial)
            case "abandon":
                outlier.abandon(trial)

    assert outlier.accepts(now + 5)


def test_requests_earn_a_share_of_a_retry_each() -> None:
    budget = RetryBudget(ratio=0.25, capacity=1)
    budget.spend()

    tries = []
    for _ in range(8):
        budget.earn()
        tries.append(budget.spend())

    assert tries == [False, False, False, True] * 2


@given(st.lists(st.booleans(), max_size=200), st.floats(0, 1), st.integers(0, 10))
def test_retries_stay_a_share_of_requests(events: list[bool], ratio: float, capacity: int) -> None:
    budget, spent = RetryBudget(ratio=ratio, capacity=capacity), 0
    for is_request in events:
        if is_request:
            budget.earn()
        else:
            spent += budget.spend()

    assert spent <= capacity + ratio * events.count(True) + 1e-9


def attempts(
    *, workers: int = 1, max_replays: int = 2, budget: RetryBudget | None = None
) -> Failover:
    """The attempts of a request that so many workers could take."""

    def has_other(than: Collection[WorkerId]) -> bool:
        return workers > len(than)

    budget = budget or RetryBudget(ratio=0, capacity=100)
    return Failover(budget, max_replays=max_replays, has_other=has_other)


def test_the_replays_of_a_request_are_limited() -> None:
    failover = attempts()

    assert [failover.allows(SENT, worker=A) for _ in range(3)] == [True, True, False]


def test_all_requests_share_the_budget() -> None:
    budget = RetryBudget(ratio=0, capacity=1)
    first, second = attempts(budget=budget), attempts(budget=budget)

    assert first.allows(SENT, worker=A)
    assert not second.allows(SENT, worker=A)


def test_a_request_that_was_not_sent_may_always_try_again() -> None:
    failover = attempts(max_replays=0, budget=RetryBudget(ratio=0, capacity=0))

    assert all(failover.allows(UNSENT, worker=A) for _ in range(10))
    assert not failover.allows(SENT, worker=B)
    assert failover.failed == {A, B}


@pytest.mark.parametrize("error", [BAD, WorkerBusyError("busy")], ids=["500", "busy"])
def test_a_bad_answer_is_tried_again_on_another_worker_only(error: UpstreamError) -> None:
    failover = attempts(workers=2)

    assert failover.allows(error, worker=A)
    assert not failover.allows(error, worker=B)


def test_a_bad_answer_spends_a_replay() -> None:
    failover = attempts(workers=10, max_replays=1)

    assert failover.allows(BAD, worker=A)
    assert not failover.allows(BAD, worker=B)


def test_a_stuck_stream_goes_on_with_another_worker_only() -> None:
    stuck = WorkerTimeoutError("silent")
    failover = attempts(workers=2)

    assert failover.allows(stuck, worker=A, has_begun=True)
    assert not attempts(workers=1).allows(stuck, worker=A, has_begun=True)


@pytest.mark.parametrize("error", [BAD, WorkerTimeoutError("silent")])
def test_a_stream_that_all_workers_have_failed_avoids_the_last_one_only(
    error: UpstreamError,
) -> None:
    failover = attempts(workers=2)

    assert failover.allows(error, worker=A, has_begun=True)
    assert failover.failed == {A}
    assert failover.allows(error, worker=B, has_begun=True)
    assert failover.failed == {B}
    assert not failover.allows(error, worker=A, has_begun=True)  # two replays at most


def test_a_slow_request_is_not_tried_again() -> None:
    assert not attempts(workers=2).allows(WorkerTimeoutError("slow"), worker=A)


def test_a_move_counts_once_and_needs_another_worker() -> None:
    alone, failover = attempts(workers=0), attempts()

    assert not alone.may_move()
    assert [failover.may_move() for _ in range(3)] == [True, True, False]
    assert failover.allows(WorkerLeftError(), worker=A)
