"""Bounded concurrency with a bounded, fair queue.

Tenants take turns: a burst from one tenant delays its own requests, not those of the others.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from gateway.errors import DrainingError, QueueFullError, QueueTimeoutError


class Slots:
    """A fixed number of slots, given to tenants in turn.

    Args:
        running: Maximum number of running requests, >= 1.
        queued: Maximum number of waiting requests, >= 0.
        timeout_seconds: Longest wait.
        on_change: Called with (running, queued) whenever one of them changes.
    """

    def __init__(
        self,
        *,
        running: int,
        queued: int,
        timeout_seconds: float,
        on_change: Callable[[int, int], None],
    ) -> None:
        self._free = running
        self._most_queued = queued
        self._timeout_seconds = timeout_seconds
        self._on_change = on_change
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._queued = 0
        self._running = 0
        self._closed = False

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return self._running

    @property
    def queued(self) -> int:
        """Requests that wait for one."""
        return self._queued

    def close(self) -> None:
        """Refuse new requests; those in the queue stay there."""
        self._closed = True

    async def take(self, tenant: str) -> None:
        """Wait for a slot; the caller must `give_back` it.

        Raises:
            QueueFullError: The queue is full.
            QueueTimeoutError: No slot became free within `timeout_seconds`.
            DrainingError: The gateway is shutting down.
        """
        if self._closed:
            raise DrainingError("This server is shutting down.", retry_after_seconds=1.0)
        if self._free and not self._queued:
            self._free -= 1
            self._running += 1
            self._changed()
            return
        if self._queued >= self._most_queued:
            raise QueueFullError(
                "The server is at capacity.", retry_after_seconds=self._timeout_seconds / 2
            )
        await self._wait(tenant)

    def give_back(self) -> None:
        """End a request: its slot goes to the first request of the next tenant."""
        self._running -= 1
        self._free += 1
        self._hand_out()
        self._changed()

    def _changed(self) -> None:
        self._on_change(self._running, self._queued)

    async def _wait(self, tenant: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        self._queued += 1
        self._changed()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.give_back()  # the slot was given in the same loop turn
            else:
                self._forget(tenant, turn)
            if isinstance(error, TimeoutError):
                raise QueueTimeoutError(
                    "The server is at capacity; the request waited its time.",
                    retry_after_seconds=self._timeout_seconds / 2,
                ) from error
            raise

    def _hand_out(self) -> None:
        while self._free and self._waiting:
            tenant, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            self._queued -= 1
            if turns:
                self._waiting.move_to_end(tenant)
            else:
                del self._waiting[tenant]
            if not turn.cancelled():
                self._free -= 1
                self._running += 1
                turn.set_result(None)

    def _forget(self, tenant: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(tenant)
        if turns is None or turn not in turns:
            return  # `_hand_out` has removed it already
        turns.remove(turn)
        self._queued -= 1
        self._changed()
        if not turns:
            del self._waiting[tenant]
