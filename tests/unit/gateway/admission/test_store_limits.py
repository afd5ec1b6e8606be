"""Two replicas on a real redis-server."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from gateway.admission import store as store_module
from gateway.admission.keys import Caller, KeyLimits
from gateway.admission.limits import LimitExceededError, Limits, Standing, Taken, charged, refusal
from gateway.admission.local_limits import Ledger, LocalLimits
from gateway.admission.store_limits import StoreLimits, open_store_limits, require_redis
from gateway.errors import ConfigError, LimitsUnavailableError
from tests.integration.redis_server import RedisServer, running_redis
from tests.integration.waiting import eventually


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="sg-") as folder, running_redis(Path(folder)) as server:
        yield server


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_PROBE_SECONDS", 0.1)


@pytest.fixture
def local() -> Iterator[LocalLimits]:
    ledger = Ledger()
    yield LocalLimits(ledger)
    ledger.close()


@dataclass(slots=True)
class Replica:
    limits: StoreLimits
    ups: list[bool] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def until(self, up: bool) -> None:
        await eventually(lambda: self.ups[-1:] == [up])

    async def take(self, who: Caller, *, tokens: int = 1, now: float = 0.0) -> Taken:
        took = await self.limits.take(who, estimated_tokens=tokens, now=now)
        assert took is not None
        return took


@asynccontextmanager
async def replica(
    server: RedisServer, *, instead: Limits | None = None, lease_seconds: float = 30.0
) -> AsyncIterator[Replica]:
    ups: list[bool] = []
    waits: list[float] = []
    limits = open_store_limits(
        server.url,
        password=None,
        timeout_seconds=1.0,
        instead=instead,
        lease_seconds=lease_seconds,
        on_change=lambda up, reason: ups.append(up),
        observe=waits.append,
    )
    task = asyncio.create_task(limits.run())
    running = Replica(limits, ups, waits)
    try:
        await running.until(True)
        yield running
    finally:
        task.cancel()
        await asyncio.wait({task})


def caller(
    *, requests: int | None = None, tokens: int | None = None, concurrent: int | None = None
) -> Caller:
    return Caller("acme", "k", KeyLimits(requests, tokens, concurrent))


async def test_a_caller_without_limits_does_not_reach_the_store(server: RedisServer) -> None:
    async with replica(server) as one:
        for who in (caller(), Caller("acme", None, KeyLimits(1, 1, 1))):
            one.limits.peek(who, now=0)
            assert await one.limits.take(who, estimated_tokens=1, now=0) is None

    assert one.waits == []


async def test_replicas_share_the_requests_of_a_minute(server: RedisServer) -> None:
    who = caller(requests=3, tokens=6000)
    async with replica(server) as one, replica(server) as two:
        await one.take(who, tokens=100)
        await two.take(who, tokens=100)
        third = await one.take(who, tokens=100)
        with pytest.raises(LimitExceededError) as caught:
            await two.take(who)

    headers = dict(third.headers)
    assert headers[b"x-ratelimit-remaining-requests"] == b"0"
    assert 5700 <= int(headers[b"x-ratelimit-remaining-tokens"]) <= 5760
    assert caught.value.headers["x-ratelimit-limit-requests"] == "3"
    assert 1 <= int(caught.value.headers["retry-after"]) <= 20
    assert len(one.waits + two.waits) == 4


async def test_replicas_share_the_tokens_of_a_minute(server: RedisServer) -> None:
    who = caller(tokens=100)
    async with replica(server) as one, replica(server) as two:
        took = await one.take(who, tokens=10**4000)
        with pytest.raises(LimitExceededError, match="100 tokens a minute"):
            await two.take(who, tokens=50)
        one.limits.settle(took, used_tokens=20, now=0)
        await one.take(who, tokens=1)  # the store hears of things in their order

        await two.take(who, tokens=78)
        with pytest.raises(LimitExceededError):
            await one.take(who, tokens=50)


async def test_replicas_share_the_concurrency(server: RedisServer) -> None:
    who = caller(concurrent=2)
    async with replica(server) as one, replica(server) as two:
        first = await one.take(who)
        await two.take(who)
        for each in (one, two):
            with pytest.raises(LimitExceededError, match="2 requests at a time"):
                await each.take(who)
        one.limits.settle(first, used_tokens=None, now=0)

        await one.take(who)


async def test_a_refused_request_takes_nothing(server: RedisServer) -> None:
    who = caller(requests=10, tokens=100)
    async with replica(server) as one:
        await one.take(who, tokens=100)
        for _ in range(5):
            with pytest.raises(LimitExceededError):
                await one.take(who, tokens=50)

        headers = dict((await one.take(who, tokens=0)).headers)

    assert headers[b"x-ratelimit-remaining-requests"] == b"8"


async def test_script_and_python_compute_the_same(server: RedisServer) -> None:
    """A refusal that Python cannot explain would be a failed assertion in `take`."""
    random = Random(7)
    messages: list[tuple[str, str | None]] = []
    async with replica(server) as one:
        for number in range(60):
            limits = KeyLimits(random.randint(1, 50), random.randint(1, 10_000), None)
            who = Caller("t", f"k{number}", limits)
            standing = Standing(0.0, 0.0, 0)
            for _ in range(8):
                tokens = random.randint(0, limits.tokens_per_minute or 0)
                expected = refusal(limits, standing, tokens=tokens, now=0.0)
                try:
                    took = await one.take(who, tokens=tokens)
                except LimitExceededError as error:
                    messages.append((error.message, expected.message if expected else None))
                    continue
                # Time passes in the store, so it may admit what was refused at time zero.
                standing = charged(limits, standing, requests=1, tokens=tokens, now=0.0)
                if random.random() < 0.5:
                    used = random.randint(0, 2 * tokens)
                    one.limits.settle(took, used_tokens=used, now=0)
                    extra = used - tokens
                    standing = charged(limits, standing, requests=0, tokens=extra, now=0.0)

    assert len(messages) > 10
    assert [ours for ours, _ in messages] == [twin for _, twin in messages]


async def test_a_flood_of_one_key_does_not_reach_the_store(server: RedisServer) -> None:
    who = caller(requests=1)
    async with replica(server) as one:
        one.limits.peek(who, now=100.0)
        await one.take(who, now=100.0)
        with pytest.raises(LimitExceededError):
            await one.take(who, now=100.0)
        asked = len(one.waits)

        for now in (100.0, 100.5, 100.9):
            with pytest.raises(LimitExceededError):
                one.limits.peek(who, now=now)
        assert len(one.waits) == asked
        one.limits.peek(who, now=101.1)  # is asked again once a second


async def test_a_large_request_that_was_refused_keeps_no_small_one_out(
    server: RedisServer,
) -> None:
    who = caller(tokens=100)
    async with replica(server) as one:
        await one.take(who, tokens=60)
        with pytest.raises(LimitExceededError):
            await one.take(who, tokens=60)

        one.limits.peek(who, now=0)


async def test_a_slot_that_is_free_again_is_noticed_at_once(server: RedisServer) -> None:
    who = caller(concurrent=1)
    async with replica(server) as one:
        took = await one.take(who)
        with pytest.raises(LimitExceededError):
            await one.take(who)
        with pytest.raises(LimitExceededError):
            one.limits.peek(who, now=0)
        one.limits.settle(took, used_tokens=None, now=0)

        one.limits.peek(who, now=0)


async def test_requests_of_a_replica_that_died_stop_counting(server: RedisServer) -> None:
    who = caller(concurrent=1)
    async with replica(server) as survivor:
        async with replica(server, lease_seconds=0.3) as victim:
            await victim.take(who)
        # Its task is gone, and nothing was settled.
        with pytest.raises(LimitExceededError):
            await survivor.take(who)
        await asyncio.sleep(0.35)

        await survivor.take(who)


async def test_a_long_request_keeps_its_lease(server: RedisServer) -> None:
    who = caller(concurrent=1)
    async with replica(server, lease_seconds=0.3) as one, replica(server) as two:
        await one.take(who)
        await asyncio.sleep(0.7)

        with pytest.raises(LimitExceededError):
            await two.take(who)


async def test_nothing_stays_in_the_store_for_ever(server: RedisServer) -> None:
    def seconds_left() -> list[int]:
        keys = [line.decode() for line in server.ask("KEYS", "*").split() if b":" in line]
        return [int(server.ask("TTL", key)[1:]) for key in keys]

    who = caller(requests=600, tokens=6000, concurrent=2)
    async with replica(server, lease_seconds=1.0) as one:
        took = await one.take(who, tokens=60)
        during = seconds_left()
        one.limits.settle(took, used_tokens=120, now=0)
    after = seconds_left()

    assert (len(during), len(after)) == (3, 2)  # the probe, the rates, and the leases
    assert all(0 < seconds <= 10 for seconds in during + after)


async def test_a_cancelled_request_has_taken_nothing(server: RedisServer) -> None:
    who = caller(tokens=100, concurrent=1)
    async with replica(server) as one:
        asking = asyncio.create_task(one.limits.take(who, estimated_tokens=80, now=0))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait({asking})

        took = await one.take(who, tokens=100)
    assert asking.cancelled()
    assert dict(took.headers)[b"x-ratelimit-remaining-tokens"] == b"0"


async def test_while_the_store_is_down_local_limits_apply(
    server: RedisServer, local: LocalLimits
) -> None:
    who = caller(requests=2, concurrent=2)
    async with replica(server, instead=local) as one:
        before = await one.take(who)
        server.kill()
        during = await one.take(who)
        await one.until(False)
        one.limits.peek(who, now=0)
        one.limits.settle(before, used_tokens=None, now=0)
        await one.take(who)
        with pytest.raises(LimitExceededError):
            one.limits.peek(who, now=0)
        with pytest.raises(LimitExceededError):
            await one.take(who)
        server.start()
        await one.until(True)

        one.limits.settle(during, used_tokens=None, now=0)
        after = await one.take(who)
    assert (before.lease is None, during.lease, after.lease is None) == (False, None, False)


async def test_closed_limits_refuse_while_the_store_is_down(server: RedisServer) -> None:
    who = caller(requests=2)
    async with replica(server) as one:
        server.kill()
        with pytest.raises(LimitsUnavailableError) as caught:
            await one.take(who)
        with pytest.raises(LimitsUnavailableError):
            one.limits.peek(who, now=0)
        with pytest.raises(LimitsUnavailableError):
            await one.take(who)
        one.limits.peek(caller(), now=0)
        server.start()
        await one.until(True)

        await one.take(who)
    assert (caught.value.status, caught.value.headers) == (503, {"retry-after": "1"})


async def test_running_requests_are_counted_again_after_a_restart_of_the_store(
    server: RedisServer,
) -> None:
    who = caller(concurrent=1)
    async with replica(server, lease_seconds=1.0) as one, replica(server) as two:
        await one.take(who)
        server.kill()
        server.start()  # it has forgotten everything
        await asyncio.sleep(0.5)  # more than a fifth of the lease

        with pytest.raises(LimitExceededError):
            await two.take(who)


def test_a_missing_redis_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    require_redis()
    monkeypatch.setattr("gateway.admission.store_limits.find_spec", lambda name: None)

    with pytest.raises(ConfigError, match=r"install specgate\[redis\]"):
        require_redis()
