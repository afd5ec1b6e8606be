import logging
import threading

import pytest

from engine.worker.periodic import Periodic


def test_stopping_calls_once_more_and_ends_the_thread() -> None:
    calls: list[str] = []
    periodic = Periodic(
        lambda: calls.append(threading.current_thread().name), seconds=1e6, name="t"
    )

    periodic.stop()
    periodic.stop()

    assert calls == [threading.current_thread().name]
    assert "t" not in {thread.name for thread in threading.enumerate()}


def test_something_else_may_come_first_and_may_fail() -> None:
    calls: list[str] = []
    began = threading.Event()

    def fail() -> None:
        calls.append("first")
        began.set()
        raise OSError

    periodic = Periodic(lambda: calls.append("work"), seconds=1e6, name="t", first=fail)
    assert began.wait(timeout=10)
    periodic.stop()

    assert calls == ["first", "work"]


def test_an_error_is_logged_once_and_the_thread_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = threading.Semaphore(0)

    def fail() -> None:
        failed.release()
        raise OSError("disk full")

    with caplog.at_level(logging.ERROR):
        periodic = Periodic(fail, seconds=0.001, name="saving")
        for _ in range(3):
            assert failed.acquire(timeout=10)
        periodic.stop()

    assert [record.message for record in caplog.records] == ["saving failed"]
