"""The door: a request enters when its key's limits and the gateway's slots allow it."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.admission.keys import Caller, KeyLimits, KeyRing
from gateway.admission.limits import Limits, Taken
from gateway.admission.slots import Slots

ANONYMOUS = Caller(tenant="anonymous", key_id=None, limits=KeyLimits())
"""Everybody, on a gateway without keys."""


class Admitted:
    """A request at the door, then inside.

    Attributes:
        queued_seconds: How long it waited.
        used_tokens: None while the worker has not counted them; 0 for a request that never ran.
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
        """`x-ratelimit-*` for the answer."""
        return [] if self._took is None else list(self._took.headers)


class Admission:
    """Recognises callers and lets their requests in.

    Args:
        ring: Gives the keys in force; None: no keys, everybody is `ANONYMOUS`.
        limits: The limits of keys.
        slots: The gateway's own concurrency and queue.
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
        """Who is asking.

        Raises:
            AuthenticationError: This gateway has keys, and that is none of them.
        """
        return ANONYMOUS if self._ring is None else self._ring().recognise(authorization)

    @asynccontextmanager
    async def enter(self, caller: Caller, *, estimated_tokens: int) -> AsyncIterator[Admitted]:
        """Hold a slot for the length of the block; limits are settled at its end.

        Raises:
            CapacityError: No room: a limit of the key, the queue, or the drain.
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
