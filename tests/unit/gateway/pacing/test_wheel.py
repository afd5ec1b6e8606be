import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pacing import Wheel
from tests.unit.gateway.virtual_time import in_virtual_time, now

SLOT_SECONDS = 0.004


def wheel() -> Wheel:
    return Wheel(asyncio.get_running_loop())


@given(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=30))
@in_virtual_time
async def test_all_work_is_done_once_in_time_unless_cancelled(waits: list[float]) -> None:
    turning, done = wheel(), dict[int, float]()
    turning.call_later(1.0, partial(done.__setitem__, -1, 0.0)).cancel()

    def work(number: int) -> None:
        assert number not in done
        done[number] = now()

    for number, seconds in enumerate(waits):
        turning.call_later(seconds, partial(work, number))
    await asyncio.sleep(3)

    assert len(done) == len(waits)
    for number, seconds in enumerate(waits):
        assert seconds - 1e-9 <= done[number] <= seconds + 2 * SLOT_SECONDS


@in_virtual_time
async def test_timers_due_together_share_one_loop_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers = 0
    call_at = loop.call_at

    def counted(*args: Any, **named: Any) -> asyncio.TimerHandle:
        nonlocal timers
        timers += 1
        return call_at(*args, **named)

    monkeypatch.setattr(loop, "call_at", counted)
    turning = wheel()
    done: list[int] = []
    assert turning.waiting == 0
    for number in range(1000):
        turning.call_later(0.05 + number * 1e-7, partial(done.append, number))
    assert turning.waiting == 1000
    loop.call_later(1, lambda: None)
    await asyncio.sleep(0.9)

    assert (len(done), turning.waiting) == (1000, 0)
    assert timers <= 6  # two of them are this test's


@in_virtual_time
async def test_work_that_reschedules_itself_lets_others_run() -> None:
    turning, turns = wheel(), 0

    def again() -> None:
        nonlocal turns
        turns += 1
        turning.call_later(0.0, again)

    again()
    await asyncio.sleep(0.1)
    turning.close()

    assert 10 <= turns <= 0.1 / SLOT_SECONDS + 2


@in_virtual_time
async def test_work_that_raises_is_reported_and_the_rest_is_done() -> None:
    turning, done, reported = wheel(), list[object](), list[object]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))

    def fail() -> None:
        raise ZeroDivisionError

    for work in (partial(done.append, 1), fail, partial(done.append, 2)):
        turning.call_later(0.1, work)
    await asyncio.sleep(1)

    assert sorted(done, key=str) == [1, 2]
    assert [type(error) for error in reported] == [ZeroDivisionError]


def test_lateness_is_measured_and_decays() -> None:
    class Slow:
        """A clock whose loop is busy before it calls back."""

        now = 10.0
        work: Callable[[], None] | None = None

        def time(self) -> float:
            return self.now

        def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
            self.work = callback
            return asyncio.TimerHandle(when, callback, (), loop)

        def turn(self, seconds: float) -> None:
            assert self.work is not None
            self.now += seconds
            self.work()

    loop = asyncio.new_event_loop()
    try:
        clock = Slow()
        turning = Wheel(clock)
        turning.call_later(0.02, lambda: None)
        assert turning.late_seconds < 0.001
        clock.turn(0.07)
        assert turning.late_seconds == pytest.approx(0.05, abs=SLOT_SECONDS)
        for _ in range(500):
            turning.call_later(0.004, lambda: None)
            clock.turn(0.006)
        assert turning.late_seconds < 0.005
    finally:
        loop.close()
