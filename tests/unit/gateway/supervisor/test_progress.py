import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.supervisor.progress import Progress, ProgressWatch

MOVING, SUSPECT, STALLED = Progress.MOVING, Progress.SUSPECT, Progress.STALLED
READING = st.tuples(st.integers(0, 30), st.integers(0, 2), st.integers(0, 1))


def verdicts(*readings: tuple[float, int, float]) -> list[Progress]:
    watch = ProgressWatch(patience_seconds=10)
    return [
        watch.judge(now=now, open_requests=requests, iterations=iterations)
        for now, requests, iterations in readings
    ]


def test_a_worker_that_counts_iterations_is_moving() -> None:
    assert verdicts((0, 1, 5), (100, 1, 6), (200, 1, 7)) == [MOVING] * 3


def test_a_worker_without_requests_is_moving() -> None:
    assert verdicts((0, 0, 5), (100, 0, 5), (200, 0, 5)) == [MOVING] * 3


def test_a_hung_worker_is_suspect_and_then_stalled() -> None:
    found = verdicts((0, 1, 5), (1, 1, 5), (5, 1, 5), (6, 1, 5), (10, 1, 5), (11, 1, 5))

    assert found == [MOVING, MOVING, MOVING, SUSPECT, MOVING, STALLED]


def test_a_worker_that_answers_the_trial_is_not_stalled() -> None:
    found = verdicts((0, 1, 5), (1, 1, 5), (6, 1, 5), (7, 1, 6), (8, 1, 6), (12, 1, 6))

    assert found == [MOVING, MOVING, SUSPECT, MOVING, MOVING, MOVING]


def test_without_a_trial_a_worker_is_never_stalled() -> None:
    assert verdicts((0, 1, 5), (1, 1, 5), (100, 1, 5), (101, 1, 5)) == [
        MOVING,
        MOVING,
        SUSPECT,
        STALLED,
    ]


def test_a_counter_that_was_reset_is_progress() -> None:
    assert verdicts((0, 1, 500), (1, 1, 500), (9, 1, 0), (12, 1, 0))[-1] is MOVING


@given(st.lists(READING, max_size=40))
def test_a_stall_needs_requests_no_iterations_and_a_trial(
    readings: list[tuple[int, int, int]],
) -> None:
    watch, now = ProgressWatch(patience_seconds=10), 0.0
    still_since, tried, last = None, False, -1
    for pause, requests, step in readings:
        now += pause
        iterations = last + step if last >= 0 else 0
        if requests == 0 or iterations != last:
            still_since, tried = None, False
        elif still_since is None:
            still_since = now

        verdict = watch.judge(now=now, open_requests=requests, iterations=iterations)

        long_still = still_since is not None and now - still_since >= 10
        assert (verdict is Progress.STALLED) == (long_still and tried)
        tried = tried or verdict is Progress.SUSPECT
        last = iterations


@pytest.mark.parametrize("patience", [0.5, 120.0])
def test_the_trial_is_sent_after_half_of_the_patience(patience: float) -> None:
    watch = ProgressWatch(patience)
    early, late = 0.49 * patience, 0.5 * patience
    watch.judge(now=0, open_requests=1, iterations=1)
    watch.judge(now=0, open_requests=1, iterations=1)

    assert watch.judge(now=early, open_requests=1, iterations=1) is MOVING
    assert watch.judge(now=late, open_requests=1, iterations=1) is SUSPECT
