from gateway.supervisor.backoff import Backoff


def test_the_first_restart_is_immediate_and_pauses_double_up_to_a_limit() -> None:
    backoff = Backoff(first_seconds=1, most_seconds=6, reset_seconds=300)

    assert [backoff.after(5) for _ in range(6)] == [0, 1, 2, 4, 6, 6]


def test_a_long_run_resets_the_pause() -> None:
    backoff = Backoff(first_seconds=1, most_seconds=60, reset_seconds=300)
    before = [backoff.after(5) for _ in range(3)]

    assert before == [0, 1, 2]
    assert [backoff.after(300), backoff.after(5)] == [0, 1]


def test_a_thousand_failures_do_not_overflow() -> None:
    backoff = Backoff(first_seconds=1, most_seconds=60, reset_seconds=300)

    assert [backoff.after(0) for _ in range(2000)][-1] == 60
