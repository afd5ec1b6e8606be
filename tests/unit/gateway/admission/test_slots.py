import asyncio
from collections import deque
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.slots import Slots
from gateway.errors import DrainingError, QueueFullError, QueueTimeoutError
from tests.unit.gateway.virtual_time import now, run_in_virtual_time

TENANT = st.sampled_from("abc")
TENTHS = st.integers(0, 30).map(lambda tenths: tenths / 10)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request's plan, in virtual seconds."""

    tenant: str
    arrives: float
    holds: float
    leaves: float | None


VISIT = st.builds(Visit, TENANT, TENTHS, TENTHS, st.none() | TENTHS)


class Hall:
    """Slots, and what was seen of them."""

    def __init__(self, *, running: int, queued: int, timeout_seconds: float = 2.0) -> None:
        self.changes: list[tuple[int, int]] = []
        self.served: list[str] = []
        self.inside = 0
        self.slots = Slots(
            running=running,
            queued=queued,
            timeout_seconds=timeout_seconds,
            on_change=lambda running, queued: self.changes.append((running, queued)),
        )

    async def visit(self, visit: Visit) -> None:
        await asyncio.sleep(visit.arrives)
        await self.slots.take(visit.tenant)
        self.served.append(visit.tenant)
        try:
            await asyncio.sleep(visit.holds)
        finally:
            self.slots.give_back()

    async def run(self, visits: list[Visit]) -> list[BaseException | None]:
        tasks = [asyncio.create_task(self.visit(visit)) for visit in visits]
        loop = asyncio.get_running_loop()
        for task, visit in zip(tasks, visits, strict=True):
            if visit.leaves is not None:
                loop.call_later(visit.leaves, task.cancel)
        return await asyncio.gather(*tasks, return_exceptions=True)


@given(st.lists(VISIT, max_size=25), st.integers(1, 3), st.integers(0, 4))
def test_no_place_is_lost_or_given_twice(visits: list[Visit], running: int, queued: int) -> None:
    async def scenario() -> None:
        hall = Hall(running=running, queued=queued)

        outcomes = await hall.run(visits)

        assert all(seen[0] <= running and seen[1] <= queued for seen in hall.changes)
        assert all(count >= 0 for seen in hall.changes for count in seen)
        assert hall.changes[-1:] in ([], [(0, 0)])
        assert (hall.slots.running, hall.slots.queued) == (0, 0)
        fine = (type(None), QueueFullError, QueueTimeoutError, asyncio.CancelledError)
        assert all(isinstance(outcome, fine) for outcome in outcomes)
        async with asyncio.timeout(0):
            for _ in range(running):
                await hall.slots.take("later")

    run_in_virtual_time(scenario())


def turns(waiting: list[str]) -> list[str]:
    """The slow twin of fairness: tenants in order of arrival, one request each in a round."""
    rounds = {tenant: deque([tenant] * waiting.count(tenant)) for tenant in waiting}
    order = []
    while any(rounds.values()):
        order += [requests.pop() for requests in rounds.values() if requests]
    return order


@given(st.lists(TENANT, max_size=20))
def test_tenants_take_turns(waiting: list[str]) -> None:
    async def scenario() -> None:
        hall = Hall(running=1, queued=20, timeout_seconds=100)

        await hall.run([Visit(tenant, 0, 1, None) for tenant in ["first", *waiting]])

        assert hall.served == ["first", *turns(waiting)]

    run_in_virtual_time(scenario())


def test_a_burst_of_one_tenant_does_not_stand_before_another() -> None:
    async def scenario() -> None:
        hall = Hall(running=1, queued=20, timeout_seconds=100)

        await hall.run([Visit("burst", 0, 1, None)] * 10 + [Visit("late", 0.5, 1, None)])

        assert hall.served.index("late") == 2

    run_in_virtual_time(scenario())


def test_a_full_queue_refuses_at_once() -> None:
    async def scenario() -> None:
        hall = Hall(running=1, queued=0)
        await hall.slots.take("a")

        with pytest.raises(QueueFullError) as caught:
            await hall.slots.take("b")

        assert now() == 0
        assert caught.value.headers == {"retry-after": "1"}

    run_in_virtual_time(scenario())


def test_who_waited_its_time_is_told_so() -> None:
    async def scenario() -> None:
        hall = Hall(running=1, queued=1, timeout_seconds=2.0)
        await hall.slots.take("a")

        with pytest.raises(QueueTimeoutError):
            await hall.slots.take("b")

        assert now() == 2.0
        assert (hall.slots.running, hall.slots.queued) == (1, 0)

    run_in_virtual_time(scenario())


def test_a_turn_that_comes_with_the_timeout_goes_to_the_next() -> None:
    async def scenario() -> None:
        hall = Hall(running=1, queued=2, timeout_seconds=2.0)

        outcomes = await hall.run(
            [Visit("a", 0, 2.0, None), Visit("b", 0, 1, None), Visit("c", 1.0, 1, None)]
        )

        assert isinstance(outcomes[1], QueueTimeoutError | None)
        assert outcomes[2] is None

    run_in_virtual_time(scenario())


def test_a_turn_that_comes_with_a_cancel_goes_to_the_next() -> None:
    async def scenario() -> None:
        hall = Hall(running=1, queued=2)
        await hall.slots.take("a")
        leaver = asyncio.create_task(hall.slots.take("b"))
        stayer = asyncio.create_task(hall.slots.take("c"))
        await asyncio.sleep(0)

        hall.slots.give_back()
        leaver.cancel()

        await stayer
        with pytest.raises(asyncio.CancelledError):
            await leaver
        assert (hall.slots.running, hall.slots.queued) == (1, 0)

    run_in_virtual_time(scenario())


def test_who_left_in_the_same_moment_is_passed_over() -> None:
    async def scenario() -> None:
        hall = Hall(running=1, queued=2)
        await hall.slots.take("a")
        leaver = asyncio.create_task(hall.slots.take("b"))
        stayer = asyncio.create_task(hall.slots.take("c"))
        await asyncio.sleep(0)

        leaver.cancel()
        hall.slots.give_back()

        await stayer
        with pytest.raises(asyncio.CancelledError):
            await leaver
        assert (hall.slots.running, hall.slots.queued) == (1, 0)

    run_in_virtual_time(scenario())


def test_nobody_overtakes_those_who_wait() -> None:
    async def scenario() -> None:
        hall = Hall(running=1, queued=5, timeout_seconds=100)

        await hall.run([Visit("a", 0, 1, None), Visit("b", 0.5, 1, None), Visit("c", 1, 1, None)])

        assert hall.served == ["a", "b", "c"]

    run_in_virtual_time(scenario())


def test_closed_places_take_nothing_new() -> None:
    async def scenario() -> None:
        hall = Hall(running=1, queued=1)
        hall.slots.close()

        with pytest.raises(DrainingError) as caught:
            await hall.slots.take("a")

        assert caught.value.status == 503
        assert caught.value.headers == {"retry-after": "1"}

    run_in_virtual_time(scenario())
