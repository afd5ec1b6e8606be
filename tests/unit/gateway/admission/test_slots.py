import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.slots import FairQueue, Slots
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


class SlowQueue:
    """What `FairQueue` does, by counting everything each time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.items: list[tuple[str, int]] = []  # in order of arrival
        self.turns: list[str] = []

    def count(self, tenant: str) -> int:
        return sum(owner == tenant for owner, _ in self.items)

    def largest(self) -> int:
        return max((self.count(tenant) for tenant in self.turns), default=0)

    def admits(self, tenant: str) -> bool:
        return len(self.items) < self.most or self.count(tenant) + 1 < self.largest()

    def push(self, tenant: str, item: int) -> None:
        self.items.append((tenant, item))
        if tenant not in self.turns:
            self.turns.append(tenant)

    def pop(self) -> int:
        tenant = self.turns[0]
        item = next(item for owner, item in self.items if owner == tenant)
        self.turns = [*self.turns[1:], tenant]
        self.remove(tenant, item)
        return item

    def remove(self, tenant: str, item: int) -> bool:
        found = (tenant, item) in self.items
        if found:
            self.items.remove((tenant, item))
        if not self.count(tenant) and tenant in self.turns:
            self.turns.remove(tenant)
        return found


@given(
    st.integers(0, 6),
    st.lists(st.sampled_from(["a", "b", "c", "pop"]) | st.integers(0, 40), max_size=60),
)
def test_the_queue_is_fair_as_its_slow_twin(most: int, acts: list[str | int]) -> None:
    queue: FairQueue[int] = FairQueue(most)
    twin = SlowQueue(most)
    owners: list[str] = []
    for act in acts:
        if isinstance(act, int):
            if act < len(owners):
                assert queue.remove(owners[act], act) == twin.remove(owners[act], act)
        elif act == "pop":
            if twin.items:
                assert queue.pop() == twin.pop()
        else:
            assert queue.admits(act) == twin.admits(act)
            if queue.admits(act):
                largest = twin.largest()
                displaced = queue.push(act, len(owners))
                assert (displaced is None) == (len(twin.items) < most)
                if displaced is not None:
                    loser = owners[displaced]
                    newest = max(item for owner, item in twin.items if owner == loser)
                    assert loser != act
                    assert (twin.count(loser), displaced) == (largest, newest)
                    assert twin.remove(loser, displaced)
                twin.push(act, len(owners))
                owners.append(act)
        assert len(queue) == len(twin.items) <= most


@given(st.lists(TENANT, max_size=30), st.integers(2, 8))
def test_the_first_request_of_a_tenant_is_queued_while_another_has_two(
    waiting: list[str], most: int
) -> None:
    queue: FairQueue[int] = FairQueue(most)
    for item, tenant in enumerate(waiting):
        if queue.admits(tenant):
            queue.push(tenant, item)

    assert queue.admits("new") or most <= 3  # at most three tenants wait, one has two


def test_a_flood_does_not_close_the_queue_to_others() -> None:
    async def scenario() -> None:
        scene = Scenario(running=1, queued=3, timeout_seconds=100)
        flood = [Request("flood", 0, 1, None)] * 10

        outcomes = await scene.run([*flood, Request("polite", 0.5, 1, None)])

        assert scene.served == ["flood", "flood", "polite", "flood"]
        assert [type(outcome) for outcome in outcomes[:4]] == [
            *[type(None)] * 3,
            QueueFullError,  # the newest in the queue was displaced
        ]

    run_in_virtual_time(scenario())


@pytest.mark.parametrize("first", ["displaced", "cancelled"])
def test_a_displacement_at_a_cancellation_loses_no_slot(first: str) -> None:
    async def scenario() -> None:
        scene = Scenario(running=1, queued=2)
        await scene.slots.take("a")
        stayer = asyncio.create_task(scene.slots.take("a"))
        newest = asyncio.create_task(scene.slots.take("a"))
        await asyncio.sleep(0)

        if first == "cancelled":
            newest.cancel()
        other = asyncio.create_task(scene.slots.take("b"))
        await asyncio.sleep(0)
        newest.cancel()
        scene.slots.give_back()
        await stayer
        scene.slots.give_back()
        await other

        await asyncio.wait({newest})
        assert (scene.slots.running, scene.slots.queued) == (1, 0)

    run_in_virtual_time(scenario())


@pytest.mark.parametrize("running", [1, 2], ids=["all-run", "one-is-free"])
def test_a_check_takes_nothing(running: int) -> None:
    async def scenario() -> None:
        slots = Scenario(running=running, queued=0).slots
        await slots.take("a")

        for _ in range(3):
            if running == 1:
                with pytest.raises(QueueFullError):
                    slots.check("b")
            else:
                slots.check("b")

        assert (slots.running, slots.queued) == (1, 0)

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

        with pytest.raises(DrainingError):
            scene.slots.check("a")
        assert caught.value.status == 503
        assert caught.value.headers == {"retry-after": "1"}

    run_in_virtual_time(scenario())
