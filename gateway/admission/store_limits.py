"""Limits whose state is in a store that all replicas of the gateway share (ADR 31).

A script is one round trip, and the store runs one at a time, by its own clock. A running request
has a lease, an entry that expires unless it is renewed, so that the requests of a replica that died
stop counting.
"""

import asyncio
import hashlib
import secrets
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING

from gateway.admission.keys import Caller
from gateway.admission.limits import (
    PERIOD_SECONDS,
    ROUNDING_SECONDS,
    Limits,
    Standing,
    Taken,
    capped,
    has_limits,
    rate_headers,
    raw_headers,
    refusal,
)
from gateway.errors import ConfigError, LimitsUnavailableError

if TYPE_CHECKING:
    from gateway.admission.store import Store

_RENEWALS = 5
"""How often a lease is renewed in the time in which it would expire."""
_REMEMBERED_SECONDS = 1.0
"""How long a refusal is remembered, so that a flood of one key does not reach the store."""

# The arithmetic of `limits.py`, operation for operation, so that both agree to the last bit.
_CLOCK = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1e6
"""
_TAKE = (
    _CLOCK
    + f"""
local requests_limit, tokens_limit, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tokens, lease, lease_seconds = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local function wait(used, limit, units)
  if limit == 0 then return 0 end
  return used + math.min(units, limit) * {PERIOD_SECONDS} / limit - {PERIOD_SECONDS}
end
local stored = redis.call('HMGET', KEYS[1], 'requests', 'tokens')
local requests_used = math.max((stored[1] or now) - now, 0)
local tokens_used = math.max((stored[2] or now) - now, 0)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
local running = redis.call('ZCARD', KEYS[2])
local admitted = (most == 0 or running < most)
  and wait(requests_used, requests_limit, 1) <= {ROUNDING_SECONDS}
  and wait(tokens_used, tokens_limit, tokens) <= {ROUNDING_SECONDS}
if admitted then
  running = running + 1
  if requests_limit > 0 then requests_used = requests_used + {PERIOD_SECONDS} / requests_limit end
  if tokens_limit > 0 then tokens_used = tokens_used + tokens * {PERIOD_SECONDS} / tokens_limit end
  redis.call('HSET', KEYS[1], 'requests', string.format('%.17g', now + requests_used),
    'tokens', string.format('%.17g', now + tokens_used))
  redis.call('EXPIRE', KEYS[1], math.ceil(math.max(requests_used, tokens_used)) + 1)
  redis.call('ZADD', KEYS[2], now + lease_seconds, lease)
  redis.call('EXPIRE', KEYS[2], math.ceil(lease_seconds) + 1)
end
return {{admitted and 1 or 0, string.format('%.17g', requests_used),
  string.format('%.17g', tokens_used), running}}
"""
)
# Does nothing for a request without a lease: it was settled already, or was never taken.
_SETTLE = (
    _CLOCK
    + f"""
local lease, tokens_limit, extra = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('ZREM', KEYS[2], lease) == 1 and tokens_limit > 0 and extra ~= 0 then
  local used = math.max((redis.call('HGET', KEYS[1], 'tokens') or now) - now, 0)
  used = math.max(used + extra * {PERIOD_SECONDS} / tokens_limit, 0)
  redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', now + used))
  redis.call('EXPIRE', KEYS[1], math.max(redis.call('TTL', KEYS[1]), math.ceil(used) + 1))
end
return 1
"""
)
_RENEW = (
    _CLOCK
    + """
for position = 2, #ARGV do redis.call('ZADD', KEYS[2], now + ARGV[1], ARGV[position]) end
redis.call('EXPIRE', KEYS[2], math.ceil(ARGV[1]) + 1)
return 1
"""
)


class StoreLimits:
    """`Limits` in a `Store`; `run` must run in the background.

    Args:
        store: Holds the state.
        instead: Limits while the store is down; None: requests are refused.
        lease_seconds: How long the running requests of a process that died count.
        observe: Called with the seconds that a request waited for the store.
    """

    def __init__(
        self,
        store: "Store",
        *,
        instead: Limits | None,
        lease_seconds: float,
        observe: Callable[[float], None],
    ) -> None:
        self._store = store
        self._instead = instead
        self._lease_seconds = lease_seconds
        self._observe = observe
        self._process = secrets.token_hex(8)
        self._numbers = count()
        self._leases: defaultdict[str, set[str]] = defaultdict(set)  # of each key
        self._refused: dict[str, tuple[float, Standing]] = {}  # when, on the clock of `peek`

    def peek(self, caller: Caller, *, now: float) -> None:
        """As `Limits.peek`, without asking the store: refuses what it has just refused.

        Raises:
            LimitExceededError: A limit is reached.
            LimitsUnavailableError: The store is down, and nothing takes its place.
        """
        if caller.key_id is None or not has_limits(caller):
            return
        if not self._store.is_up:
            self._limits_instead().peek(caller, now=now)
            return
        if caller.key_id not in self._refused:
            return
        at, standing = self._refused[caller.key_id]
        refused = refusal(caller.limits, standing, tokens=1, now=now - at)
        if now - at < _REMEMBERED_SECONDS and refused is not None:
            raise refused
        del self._refused[caller.key_id]

    async def take(self, caller: Caller, *, estimated_tokens: int, now: float) -> Taken | None:
        """As `Limits.take`.

        Raises:
            LimitExceededError: A limit is reached; nothing was taken.
            LimitsUnavailableError: The store is down, and nothing takes its place.
        """
        if caller.key_id is None or not has_limits(caller):
            return None
        if not self._store.is_up:
            return await self._limits_instead().take(
                caller, estimated_tokens=estimated_tokens, now=now
            )
        limits, tokens = caller.limits, capped(caller.limits, estimated_tokens)
        lease = f"{self._process}:{next(self._numbers)}"
        took = Taken(caller.key_id, limits, tokens, (), lease)
        reply = None
        try:
            reply = await self._ask(took)
        finally:
            if reply is None:  # failed or cancelled: nobody knows whether it was taken
                self._post_settlement(took, extra_tokens=-tokens)
        if reply is None:
            return await self._limits_instead().take(
                caller, estimated_tokens=estimated_tokens, now=now
            )
        admitted, standing = reply
        if not admitted:
            self._refused[caller.key_id] = now, standing
            refused = refusal(limits, standing, tokens=tokens, now=0.0)
            assert refused is not None  # the script computes the same
            raise refused
        self._leases[caller.key_id].add(lease)
        return replace(took, headers=raw_headers(rate_headers(limits, standing, now=0.0)))

    def settle(self, took: Taken, *, used_tokens: int | None, now: float) -> None:
        """As `Limits.settle`; the store is told in the background."""
        if took.lease is None:
            self._limits_instead().settle(took, used_tokens=used_tokens, now=now)
            return
        leases = self._leases[took.key_id]
        leases.remove(took.lease)
        if not leases:
            del self._leases[took.key_id]
        self._refused.pop(took.key_id, None)
        extra = 0 if used_tokens is None else used_tokens - took.estimated_tokens
        self._post_settlement(took, extra_tokens=extra)

    async def run(self) -> None:
        """Talk to the store, and renew the leases of running requests, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._store.run(), name="limits-store")
            tasks.create_task(self._renew(), name="limits-leases")

    async def _ask(self, took: Taken) -> tuple[bool, Standing] | None:
        """Run the script that takes; returns whether it did, and the times from now on."""
        limits = took.limits
        arguments = (
            limits.requests_per_minute or 0,
            limits.tokens_per_minute or 0,
            limits.concurrent_requests or 0,
            took.estimated_tokens if limits.tokens_per_minute else 0,
            took.lease or "",
            self._lease_seconds,
        )
        started = time.perf_counter()
        reply = await self._store.call(_TAKE, _keys(took.key_id), arguments)
        self._observe(time.perf_counter() - started)
        if reply is None:
            return None
        admitted, requests_used, tokens_used, running = reply
        return bool(admitted), Standing(float(requests_used), float(tokens_used), running)

    def _post_settlement(self, took: Taken, *, extra_tokens: int) -> None:
        limit = took.limits.tokens_per_minute
        arguments = (took.lease or "", limit or 0, extra_tokens if limit else 0)
        self._store.post(_SETTLE, _keys(took.key_id), arguments)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / _RENEWALS)
            if self._store.is_up:  # else they would queue up
                for key_id, leases in self._leases.items():
                    self._store.post(_RENEW, _keys(key_id), (self._lease_seconds, *leases))

    def _limits_instead(self) -> Limits:
        if self._instead is None:
            raise LimitsUnavailableError(
                "The limits of this key cannot be checked at the moment.",
                retry_after_seconds=_REMEMBERED_SECONDS,
            )
        return self._instead


def open_store_limits(
    url: str,
    *,
    password: str | None,
    timeout_seconds: float,
    instead: Limits | None,
    lease_seconds: float,
    on_change: Callable[[bool, str], None],
    observe: Callable[[float], None],
) -> StoreLimits:
    """Limits in a Redis or Valkey server.

    Args:
        url: `redis://`, `rediss://` or `unix://`, without a password.
        password: None: none.
        timeout_seconds: Longest wait for the server.
        instead: See `StoreLimits`.
        lease_seconds: See `StoreLimits`.
        on_change: See `Store`.
        observe: See `StoreLimits`.
    """
    from gateway.admission.store import Store  # an optional dependency: see `require_redis`

    store = Store(url, password=password, timeout_seconds=timeout_seconds, on_change=on_change)
    return StoreLimits(store, instead=instead, lease_seconds=lease_seconds, observe=observe)


def require_redis() -> None:
    """Check that redis-py is installed.

    Raises:
        ConfigError: It is not.
    """
    if find_spec("redis") is None:
        raise ConfigError("gateway.limits.store: redis is missing: install specgate[redis]")


def _keys(key_id: str) -> tuple[str, str]:
    """The rates and the leases of a key; the braces put both on one node of a cluster.

    Source: Redis Cluster specification, "Hash tags".
    """
    name = hashlib.sha256(key_id.encode()).hexdigest()[:32]
    return f"specgate:{{{name}}}:rates", f"specgate:{{{name}}}:leases"
