import asyncio
from collections import deque
from collections.abc import Callable
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
class Request:
    """One request: when it arrives, runs and is cancelled, in virtual seconds."""

    tenant: str
    arrives: float
    holds: float
    leaves: float | None


REQUEST = st.builds(Request, TENANT, TENTHS, TENTHS, st.none() | TENTHS)


class Scenario:
    """Slots, and a record of what happened."""

    def __init__(self, *, running: int, queued: int, timeout_seconds: float = 2.0) -> None:
        self.changes: list[tuple[int, int]] = []
        self.served: list[str] = []
        self.slots = Slots(
            running=running,
            queued=queued,
            timeout_seconds=timeout_seconds,
            on_change=lambda running, queued: self.changes.append((running, queued)),
        )

    async def serve(self, request: Request) -> None:
        await asyncio.sleep(request.arrives)
        await self.slots.take(request.tenant)
        self.served.append(request.tenant)
        try:
            await asyncio.sleep(request.holds)
        finally:
            self.slots.give_back()

    async def run(self, requests: list[Request]) -> list[BaseException | None]:
        tasks = [asyncio.create_task(self.serve(request)) for request in requests]
        loop = asyncio.get_running_loop()
        for task, request in zip(tasks, requests, strict=True):
            if request.leaves is not None:
                loop.call_later(request.leaves, task.cancel)
        return await asyncio.gather(*tasks, return_exceptions=True)


@given(st.lists(REQUEST, max_size=25), st.integers(1, 3), st.integers(0, 4))
def test_no_slot_is_lost_or_given_twice(requests: list[Request], running: int, queued: int) -> None:
    async def scenario() -> None:
        scene = Scenario(running=running, queued=queued)

        outcomes = await scene.run(requests)

        assert all(seen[0] <= running and seen[1] <= queued for seen in scene.changes)
        assert all(count >= 0 for seen in scene.changes for count in seen)
        assert scene.changes[-1:] in ([], [(0, 0)])
        assert (scene.slots.running, scene.slots.queued) == (0, 0)
        fine = (type(None), QueueFullError, QueueTimeoutError, asyncio.CancelledError)
        assert all(isinstance(outcome, fine) for outcome in outcomes)
        async with asyncio.timeout(0):
            for _ in range(running):
                await scene.slots.take("later")

    run_in_virtual_time(scenario())


def turns(waiting: list[str]) -> list[str]:
    """The expected order: in each round one request per tenant, in order of arrival."""
    rounds = {tenant: deque([tenant] * waiting.count(tenant)) for tenant in waiting}
    order = []
    while any(rounds.values()):
        order += [requests.pop() for requests in rounds.values() if requests]
    return order


@given(st.lists(TENANT, max_size=20))
def test_tenants_take_turns(waiting: list[str]) -> None:
    async def scenario() -> None:
        scene = Scenario(running=1, queued=20, timeout_seconds=100)

        await scene.run([Request(tenant, 0, 1, None) for tenant in ["first", *waiting]])

        assert scene.served == ["first", *turns(waiting)]

    run_in_virtual_time(scenario())


def test_a_burst_of_one_tenant_does_not_delay_another() -> None:
    async def scenario() -> None:
        scene = Scenario(running=1, queued=20, timeout_seconds=100)

        await scene.run([Request("burst", 0, 1, None)] * 10 + [Request("late", 0.5, 1, None)])

        assert scene.served.index("late") == 2

    run_in_virtual_time(scenario())


def test_a_full_queue_refuses_at_once() -> None:
    async def scenario() -> None:
        scene = Scenario(running=1, queued=0)
        await scene.slots.take("a")

        with pytest.raises(QueueFullError) as caught:
            await scene.slots.take("b")

        assert now() == 0
        assert caught.value.headers == {"retry-after": "1"}

    run_in_virtual_time(scenario())


def test_the_wait_for_a_slot_is_limited() -> None:
    async def scenario() -> None:
        scene = Scenario(running=1, queued=1, timeout_seconds=2.0)
        await scene.slots.take("a")

        with pytest.raises(QueueTimeoutError):
            await scene.slots.take("b")

        assert now() == 2.0
        assert (scene.slots.running, scene.slots.queued) == (1, 0)

    run_in_virtual_time(scenario())


def test_a_slot_given_at_the_timeout_goes_to_the_next() -> None:
    async def scenario() -> None:
        scene = Scenario(running=1, queued=2, timeout_seconds=2.0)

        outcomes = await scene.run(
            [Request("a", 0, 2.0, None), Request("b", 0, 1, None), Request("c", 1.0, 1, None)]
        )

        assert isinstance(outcomes[1], QueueTimeoutError | None)
        assert outcomes[2] is None

    run_in_virtual_time(scenario())


@pytest.mark.parametrize("slot_first", [True, False], ids=["slot-first", "cancel-first"])
def test_a_slot_given_at_a_cancellation_goes_to_the_next(slot_first: bool) -> None:
    async def scenario() -> None:
        scene = Scenario(running=1, queued=2)
        await scene.slots.take("a")
        leaver = asyncio.create_task(scene.slots.take("b"))
        stayer = asyncio.create_task(scene.slots.take("c"))
        await asyncio.sleep(0)

        steps: list[Callable[[], object]] = [scene.slots.give_back, leaver.cancel]
        for step in steps if slot_first else reversed(steps):
            step()

        await stayer
        with pytest.raises(asyncio.CancelledError):
            await leaver
        assert (scene.slots.running, scene.slots.queued) == (1, 0)

    run_in_virtual_time(scenario())


def test_new_requests_do_not_overtake_the_queue() -> None:
    async def scenario() -> None:
        scene = Scenario(running=1, queued=5, timeout_seconds=100)

        await scene.run(
            [Request("a", 0, 1, None), Request("b", 0.5, 1, None), Request("c", 1, 1, None)]
        )

        assert scene.served == ["a", "b", "c"]

    run_in_virtual_time(scenario())


def test_closed_slots_refuse_new_requests() -> None:
    async def scenario() -> None:
        scene = Scenario(running=1, queued=1)
        scene.slots.close()

        with pytest.raises(DrainingError) as caught:
            await scene.slots.take("a")

        assert caught.value.status == 503
        assert caught.value.headers == {"retry-after": "1"}

    run_in_virtual_time(scenario())
