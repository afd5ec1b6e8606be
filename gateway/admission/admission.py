"""Admit a request: who sends it, what its key may use, the memory it takes, and its slot.

A request passes in two steps. `Admission.enter` refuses what cannot run now, before a byte of the
body is read. `Entry.run` charges the key's limits and waits for a slot, once the body is known.
"""

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.admission.keys import Caller, KeyLimits, KeyRing
from gateway.admission.limits import Limits, Taken
from gateway.admission.slots import Slots
from gateway.errors import BytesInFlightError

ANONYMOUS = Caller(tenant="anonymous", key_id=None, limits=KeyLimits())
"""The caller of every request on a gateway without keys."""

_BYTES_RETRY_SECONDS = 1.0


class BytesInFlight:
    """Bounds the bytes of request bodies that are in memory, in all and for each tenant.

    A request whose body alone is over a bound passes while nothing else counts towards that bound,
    so that every body up to `max_body_bytes` can be served.

    Args:
        most: Maximum number of bytes.
        most_of_tenant: Maximum number of bytes of one tenant.
    """

    def __init__(self, *, most: int, most_of_tenant: int) -> None:
        self._most = most
        self._most_of_tenant = most_of_tenant
        self._all = 0
        self._of_tenant: defaultdict[str, int] = defaultdict(int)

    @property
    def held(self) -> int:
        """Bytes that all requests hold."""
        return self._all

    def hold(self, tenant: str, more: int, *, own: int) -> None:
        """Count `more` bytes for a request that holds `own` already.

        Raises:
            BytesInFlightError: That is too much; nothing was counted.
        """
        for held, most in (
            (self._all, self._most),
            (self._of_tenant.get(tenant, 0), self._most_of_tenant),
        ):
            if held + more > most and held > own:
                raise BytesInFlightError(
                    "Too many bytes of request bodies are in flight.",
                    retry_after_seconds=_BYTES_RETRY_SECONDS,
                )
        self._all += more
        self._of_tenant[tenant] += more

    def release(self, tenant: str, count: int) -> None:
        """Stop counting a request's bytes."""
        self._all -= count
        self._of_tenant[tenant] -= count
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]


class Entry:
    """A request that was let in; it holds nothing before `hold` and `run`.

    Attributes:
        queued_seconds: How long it waited for its slot.
        used_tokens: Tokens that the request has used; None: unknown, its estimate is charged;
            0 for a request that never ran. Whoever serves the request keeps this up to date.
    """

    def __init__(
        self,
        caller: Caller,
        limits: Limits,
        slots: Slots,
        in_flight: BytesInFlight,
        clock: Callable[[], float],
    ) -> None:
        self._caller = caller
        self._limits = limits
        self._slots = slots
        self._in_flight = in_flight
        self._clock = clock
        self._held_bytes = 0
        self._took: Taken | None = None
        self._has_slot = False
        self.queued_seconds = 0.0
        self.used_tokens: int | None = 0

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The `x-ratelimit-*` response headers; empty before `run`."""
        return [] if self._took is None else list(self._took.headers)

    def hold(self, n_bytes: int) -> None:
        """Count more bytes of the request's body, >= 0, until the request ends.

        Raises:
            BytesInFlightError: The process or the tenant holds too many.
        """
        self._in_flight.hold(self._caller.tenant, n_bytes, own=self._held_bytes)
        self._held_bytes += n_bytes

    async def run(self, *, estimated_tokens: int) -> None:
        """Charge the key's limits, then wait for a slot; once.

        Raises:
            RateLimitError: A limit of the key is reached; nothing was charged.
            CapacityError: The queue is full or too slow, or the gateway is draining.
        """
        self._took = await self._limits.take(
            self._caller, estimated_tokens=estimated_tokens, now=self._clock()
        )
        queued = self._clock()
        await self._slots.take(self._caller.tenant)
        self._has_slot = True
        self.queued_seconds = self._clock() - queued
        self.used_tokens = None

    def leave(self) -> None:
        """Give everything back, and settle the limits."""
        if self._has_slot:
            self._slots.give_back()
        self._in_flight.release(self._caller.tenant, self._held_bytes)
        if self._took is not None:
            self._limits.settle(self._took, used_tokens=self.used_tokens, now=self._clock())


class Admission:
    """Authenticates callers and admits their requests.

    Args:
        ring: Returns the current keys; None: no keys, every caller is `ANONYMOUS`.
        limits: The limits of keys.
        slots: The gateway's concurrency limit and its queue.
        in_flight: The limit on bytes of request bodies.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        ring: Callable[[], KeyRing] | None,
        limits: Limits,
        slots: Slots,
        in_flight: BytesInFlight,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ring = ring
        self._limits = limits
        self._in_flight = in_flight
        self._clock = clock
        self.slots = slots

    def recognise(self, authorization: str | None) -> Caller:
        """Identify the caller.

        Raises:
            AuthenticationError: This gateway has keys, and the header has none of them.
        """
        return ANONYMOUS if self._ring is None else self._ring().recognise(authorization)

    @asynccontextmanager
    async def enter(self, caller: Caller) -> AsyncIterator[Entry]:
        """Let a request in for the duration of the block, if it could run now.

        Raises:
            RateLimitError: A limit of the key is reached.
            CapacityError: The queue is full, or the gateway is draining.
        """
        self._limits.peek(caller, now=self._clock())
        self.slots.check(caller.tenant)
        entry = Entry(caller, self._limits, self.slots, self._in_flight, self._clock)
        try:
            yield entry
        finally:
            entry.leave()
