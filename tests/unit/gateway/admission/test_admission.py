import asyncio
from collections.abc import Iterator

import pytest

from gateway.admission.admission import ANONYMOUS, Admission
from gateway.admission.keys import Caller, KeyLimits, KeyRing, new_key
from gateway.admission.ledger import Ledger
from gateway.admission.limits import Limits
from gateway.admission.slots import Slots
from gateway.errors import AuthenticationError, QueueFullError, RateLimitError
from tests.unit.gateway.virtual_time import now, run_in_virtual_time

LIMITED = Caller("acme", "k", KeyLimits(tokens_per_minute=100, concurrent_requests=5))


@pytest.fixture
def limits() -> Iterator[Limits]:
    ledger = Ledger()
    yield Limits(ledger)
    ledger.close()


def make_admission(limits: Limits, *, running: int = 1, queued: int = 1) -> Admission:
    slots = Slots(
        running=running, queued=queued, timeout_seconds=10, on_change=lambda running, queued: None
    )
    return Admission(None, limits, slots, clock=now)


async def remaining(admission: Admission) -> bytes:
    async with admission.enter(LIMITED, estimated_tokens=0) as entry:
        return dict(entry.headers)[b"x-ratelimit-remaining-tokens"]


def test_without_keys_every_caller_is_anonymous(limits: Limits) -> None:
    admission = make_admission(limits)

    assert admission.recognise("Bearer whatever") is ANONYMOUS
    assert admission.recognise(None) is ANONYMOUS


def test_the_current_ring_is_used(limits: Limits) -> None:
    text, record = new_key(tenant="acme", name="", created="", limits=KeyLimits())
    rings = [KeyRing([record], defaults=KeyLimits()), KeyRing([], defaults=KeyLimits())]
    slots = Slots(running=1, queued=1, timeout_seconds=1, on_change=lambda running, queued: None)
    admission = Admission(lambda: rings[0], limits, slots)

    assert admission.recognise(f"Bearer {text}").tenant == "acme"
    rings.pop(0)
    with pytest.raises(AuthenticationError):
        admission.recognise(f"Bearer {text}")


def test_a_caller_without_limits_gets_no_headers(limits: Limits) -> None:
    async def scenario() -> None:
        async with make_admission(limits).enter(ANONYMOUS, estimated_tokens=1) as entry:
            assert entry.headers == []
            assert entry.used_tokens is None

    run_in_virtual_time(scenario())


def test_the_wait_for_a_slot_is_measured(limits: Limits) -> None:
    async def scenario() -> None:
        admission = make_admission(limits)

        async def stay() -> float:
            async with admission.enter(ANONYMOUS, estimated_tokens=1) as entry:
                await asyncio.sleep(3)
                return entry.queued_seconds

        assert list(await asyncio.gather(stay(), stay())) == [0.0, 3.0]

    run_in_virtual_time(scenario())


@pytest.mark.parametrize(
    ("used", "left"), [(30, b"70"), (0, b"100"), (None, b"40")], ids=["counted", "none", "unknown"]
)
def test_used_tokens_are_settled_at_the_end(limits: Limits, used: int | None, left: bytes) -> None:
    async def scenario() -> None:
        admission = make_admission(limits)

        async with admission.enter(LIMITED, estimated_tokens=60) as entry:
            entry.used_tokens = used

        assert await remaining(admission) == left

    run_in_virtual_time(scenario())


def test_a_block_that_fails_frees_its_slot_and_its_limits(limits: Limits) -> None:
    async def scenario() -> None:
        admission = make_admission(limits)

        async def fail() -> None:
            async with admission.enter(LIMITED, estimated_tokens=60) as entry:
                entry.used_tokens = 0
                raise ZeroDivisionError

        for _ in range(10):
            with pytest.raises(ZeroDivisionError):
                await fail()

        assert (admission.slots.running, admission.slots.queued) == (0, 0)
        assert await remaining(admission) == b"100"

    run_in_virtual_time(scenario())


def test_a_request_without_a_slot_has_used_nothing(limits: Limits) -> None:
    async def scenario() -> None:
        admission = make_admission(limits, queued=0)
        async with admission.enter(ANONYMOUS, estimated_tokens=0):
            for _ in range(10):
                with pytest.raises(QueueFullError):
                    async with admission.enter(LIMITED, estimated_tokens=60):
                        pass

        assert await remaining(admission) == b"100"

    run_in_virtual_time(scenario())


def test_a_request_that_leaves_the_queue_has_used_nothing(limits: Limits) -> None:
    async def scenario() -> None:
        admission = make_admission(limits)
        async with admission.enter(ANONYMOUS, estimated_tokens=0):
            waiting = asyncio.create_task(remaining(admission))
            await asyncio.sleep(1)
            waiting.cancel()
            await asyncio.wait({waiting})

        assert waiting.cancelled()
        assert await remaining(admission) == b"100"

    run_in_virtual_time(scenario())


def test_limits_are_checked_before_the_queue(limits: Limits) -> None:
    async def scenario() -> None:
        admission = make_admission(limits, queued=0)
        async with admission.enter(LIMITED, estimated_tokens=100):
            with pytest.raises(RateLimitError):
                async with admission.enter(LIMITED, estimated_tokens=1):
                    pass

    run_in_virtual_time(scenario())
