import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.admission import ANONYMOUS, Admission, BytesInFlight
from gateway.admission.keys import Caller, KeyLimits, KeyRing, new_key
from gateway.admission.limits import Limits
from gateway.admission.local_limits import Ledger, LocalLimits
from gateway.admission.slots import Slots
from gateway.errors import (
    AuthenticationError,
    BytesInFlightError,
    DrainingError,
    QueueFullError,
    RateLimitError,
)
from tests.unit.gateway.virtual_time import in_virtual_time, now

LIMITED = Caller("acme", "k", KeyLimits(tokens_per_minute=100, concurrent_requests=5))
OTHER = Caller("other", "o", KeyLimits())


@pytest.fixture
def limits() -> Iterator[Limits]:
    ledger = Ledger()
    yield LocalLimits(ledger)
    ledger.close()


def make_admission(
    limits: Limits, *, running: int = 1, queued: int = 1, most_bytes: int = 100
) -> Admission:
    slots = Slots(
        running=running, queued=queued, timeout_seconds=10, on_change=lambda running, queued: None
    )
    in_flight = BytesInFlight(most=most_bytes, most_of_tenant=most_bytes // 2)
    return Admission(None, limits, slots, in_flight, clock=now)


async def remaining(admission: Admission) -> bytes:
    async with admission.enter(LIMITED) as entry:
        await entry.run(estimated_tokens=0)
        return dict(entry.headers)[b"x-ratelimit-remaining-tokens"]


def test_without_keys_every_caller_is_anonymous(limits: Limits) -> None:
    admission = make_admission(limits)

    assert admission.recognise("Bearer whatever") is ANONYMOUS
    assert admission.recognise(None) is ANONYMOUS


def test_the_current_ring_is_used(limits: Limits) -> None:
    text, record = new_key(tenant="acme", name="", created="", limits=KeyLimits())
    rings = [KeyRing([record], defaults=KeyLimits()), KeyRing([], defaults=KeyLimits())]
    slots = Slots(running=1, queued=1, timeout_seconds=1, on_change=lambda running, queued: None)
    in_flight = BytesInFlight(most=1, most_of_tenant=1)
    admission = Admission(lambda: rings[0], limits, slots, in_flight)

    assert admission.recognise(f"Bearer {text}").tenant == "acme"
    rings.pop(0)
    with pytest.raises(AuthenticationError):
        admission.recognise(f"Bearer {text}")


@in_virtual_time
async def test_a_caller_without_limits_gets_no_headers(limits: Limits) -> None:
    async with make_admission(limits).enter(ANONYMOUS) as entry:
        await entry.run(estimated_tokens=1)

        assert entry.headers == []
        assert entry.used_tokens is None


@in_virtual_time
async def test_the_wait_for_a_slot_is_measured(limits: Limits) -> None:
    admission = make_admission(limits)

    async def stay() -> float:
        async with admission.enter(ANONYMOUS) as entry:
            await asyncio.sleep(1)  # the body
            await entry.run(estimated_tokens=1)
            await asyncio.sleep(3)
            return entry.queued_seconds

    assert list(await asyncio.gather(stay(), stay())) == [0.0, 3.0]


@pytest.mark.parametrize(
    ("used", "left"), [(30, b"70"), (0, b"100"), (None, b"40")], ids=["counted", "none", "unknown"]
)
@in_virtual_time
async def test_used_tokens_are_settled_at_the_end(
    limits: Limits, used: int | None, left: bytes
) -> None:
    admission = make_admission(limits)

    async with admission.enter(LIMITED) as entry:
        await entry.run(estimated_tokens=60)
        entry.used_tokens = used

    assert await remaining(admission) == left


@pytest.mark.parametrize(
    ("counted", "left"), [(None, b"40"), (25, b"75")], ids=["not-counted", "counted"]
)
@in_virtual_time
async def test_a_stream_whose_client_leaves_is_charged_for_what_was_counted(
    limits: Limits, counted: int | None, left: bytes
) -> None:
    admission = make_admission(limits)

    async def stream() -> None:
        async with admission.enter(LIMITED) as entry:
            await entry.run(estimated_tokens=60)
            entry.used_tokens = counted
            await asyncio.sleep(1000)

    streaming = asyncio.create_task(stream())
    await asyncio.sleep(1e-9)
    streaming.cancel()
    await asyncio.wait({streaming})

    assert await remaining(admission) == left


@in_virtual_time
async def test_a_running_request_is_charged_its_estimate(limits: Limits) -> None:
    """So it is also charged if the process dies."""
    admission = make_admission(limits, running=2)

    async with admission.enter(LIMITED) as entry:
        await entry.run(estimated_tokens=60)

        assert await remaining(admission) == b"40"


@in_virtual_time
async def test_a_block_that_fails_gives_everything_back(limits: Limits) -> None:
    admission = make_admission(limits)

    async def fail() -> None:
        async with admission.enter(LIMITED) as entry:
            entry.hold(50)
            await entry.run(estimated_tokens=60)
            entry.used_tokens = 0
            raise ZeroDivisionError

    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            await fail()

    assert (admission.slots.running, admission.slots.queued) == (0, 0)
    assert await remaining(admission) == b"100"


@in_virtual_time
async def test_a_request_that_gets_no_slot_has_used_nothing(limits: Limits) -> None:
    admission = make_admission(limits, queued=0)
    async with admission.enter(LIMITED) as late, admission.enter(ANONYMOUS) as first:
        await first.run(estimated_tokens=0)
        with pytest.raises(QueueFullError):
            await late.run(estimated_tokens=60)

    assert await remaining(admission) == b"100"


@in_virtual_time
async def test_a_request_that_leaves_the_queue_has_used_nothing(limits: Limits) -> None:
    admission = make_admission(limits)
    async with admission.enter(ANONYMOUS) as first:
        await first.run(estimated_tokens=0)
        waiting = asyncio.create_task(remaining(admission))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait({waiting})

    assert waiting.cancelled()
    assert await remaining(admission) == b"100"


async def reach_the_limit(admission: Admission) -> None:
    async with admission.enter(LIMITED) as entry:
        await entry.run(estimated_tokens=100)


async def fill_the_queue(admission: Admission) -> None:
    for _ in range(2):
        asyncio.create_task(remaining(admission))  # noqa: RUF006  # the loop ends it
        await asyncio.sleep(0)


async def drain(admission: Admission) -> None:
    admission.slots.close()


@pytest.mark.parametrize(
    ("cause", "refusal"),
    [
        (reach_the_limit, RateLimitError),
        (fill_the_queue, QueueFullError),
        (drain, DrainingError),
    ],
    ids=["limit", "queue", "draining"],
)
@in_virtual_time
async def test_what_cannot_run_now_is_refused_before_its_body_is_read(
    limits: Limits,
    cause: Callable[[Admission], Awaitable[None]],
    refusal: type[Exception],
) -> None:
    admission = make_admission(limits)
    if cause is fill_the_queue:
        holder = await admission.enter(ANONYMOUS).__aenter__()
        await holder.run(estimated_tokens=0)
    await cause(admission)

    with pytest.raises(refusal):
        async with admission.enter(LIMITED):
            pytest.fail("the body would be read")


@in_virtual_time
async def test_limits_are_checked_again_before_the_queue(limits: Limits) -> None:
    admission = make_admission(limits, queued=0)
    async with admission.enter(LIMITED) as late, admission.enter(LIMITED) as first:
        await first.run(estimated_tokens=100)

        with pytest.raises(RateLimitError):
            await late.run(estimated_tokens=1)


@in_virtual_time
async def test_bytes_are_held_until_the_request_ends(limits: Limits) -> None:
    admission = make_admission(limits, most_bytes=100)

    async with admission.enter(OTHER) as other, admission.enter(ANONYMOUS) as second:
        other.hold(10)
        second.hold(1)
        async with admission.enter(LIMITED) as entry:
            entry.hold(30)
            entry.hold(20)
            with pytest.raises(BytesInFlightError) as caught:  # over the tenant's share
                entry.hold(1_000)
        second.hold(49)
        other.hold(40)
        with pytest.raises(BytesInFlightError):  # over the share of the process
            other.hold(1)

    assert (caught.value.status, caught.value.reason) == (429, "bytes_in_flight")
    assert caught.value.headers == {"retry-after": "1"}


@in_virtual_time
async def test_a_body_over_the_bound_passes_when_it_is_alone(limits: Limits) -> None:
    admission = make_admission(limits, most_bytes=100)

    async with admission.enter(LIMITED) as large, admission.enter(OTHER) as other:
        large.hold(90)
        large.hold(90)
        with pytest.raises(BytesInFlightError):
            other.hold(1)


Act = tuple[str, int, int]


@given(
    st.lists(st.tuples(st.sampled_from("hr"), st.integers(0, 5), st.integers(0, 60)), max_size=60)
)
def test_bytes_are_counted_like_a_plain_sum(acts: list[Act]) -> None:
    in_flight = BytesInFlight(most=100, most_of_tenant=50)
    held: defaultdict[int, int] = defaultdict(int)  # of each request; requests 0-2 are tenant "a"

    def tenant(request: int) -> str:
        return "a" if request < 3 else "b"

    for kind, request, count in acts:
        others = {r: n for r, n in held.items() if r != request}
        of_tenant = sum(n for r, n in others.items() if tenant(r) == tenant(request))
        own = held[request] + count
        if kind == "r":
            in_flight.release(tenant(request), held.pop(request))
        elif (not any(others.values()) or sum(others.values()) + own <= 100) and (
            not of_tenant or of_tenant + own <= 50
        ):
            in_flight.hold(tenant(request), count, own=held[request])
            held[request] += count
        else:
            with pytest.raises(BytesInFlightError):
                in_flight.hold(tenant(request), count, own=held[request])
        assert in_flight.held == sum(held.values())
