"""Admit a request when its key's limits and the gateway's slots allow it."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.admission.keys import Caller, KeyLimits, KeyRing
from gateway.admission.limits import Limits, Taken
from gateway.admission.slots import Slots

ANONYMOUS = Caller(tenant="anonymous", key_id=None, limits=KeyLimits())
"""The caller of every request on a gateway without keys."""


class Admitted:
    """A request in the queue, then in a slot.

    Attributes:
        queued_seconds: How long it waited for its slot.
        used_tokens: None until the worker has counted them; 0 for a request that never ran.
    """

    def __init__(self, took: Taken | None) -> None:
        self._took = took
        self.queued_seconds = 0.0
        self.used_tokens: int | None = 0

    def begin(self, *, queued_seconds: float) -> None:
        """The request got its slot."""
        self.queued_seconds = queued_seconds
        self.used_tokens = None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The `x-ratelimit-*` response headers."""
        return [] if self._took is None else list(self._took.headers)


class Admission:
    """Authenticates callers and admits their requests.

    Args:
        ring: Returns the current keys; None: no keys, every caller is `ANONYMOUS`.
        limits: The limits of keys.
        slots: The gateway's concurrency limit and its queue.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        ring: Callable[[], KeyRing] | None,
        limits: Limits,
        slots: Slots,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ring = ring
        self._limits = limits
        self._clock = clock
        self.slots = slots

    def recognise(self, authorization: str | None) -> Caller:
        """Identify the caller.

        Raises:
            AuthenticationError: This gateway has keys, and the header has none of them.
        """
        return ANONYMOUS if self._ring is None else self._ring().recognise(authorization)

    @asynccontextmanager
    async def enter(self, caller: Caller, *, estimated_tokens: int) -> AsyncIterator[Admitted]:
        """Hold a slot for the duration of the block, then settle the limits.

        Raises:
            CapacityError: A limit of the key is reached, the queue is full or too slow, or the
                gateway is draining.
        """
        arrived = self._clock()
        took = self._limits.take(caller, estimated_tokens=estimated_tokens, now=arrived)
        entry = Admitted(took)
        try:
            await self.slots.take(caller.tenant)
            try:
                entry.begin(queued_seconds=self._clock() - arrived)
                yield entry
            finally:
                self.slots.give_back()
        finally:
            if took is not None:
                self._limits.settle(took, used_tokens=entry.used_tokens, now=self._clock())
