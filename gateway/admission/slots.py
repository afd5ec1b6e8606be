"""Bounded concurrency with a bounded, fair queue: who may run now, and who waits for how long.

Tenants take turns: a burst of one waits behind itself, not in front of everybody.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from gateway.errors import DrainingError, QueueFullError, QueueTimeoutError


class Slots:
    """A number of slots to run, handed out in turn.

    Args:
        running: Most requests that run at a time, >= 1.
        queued: Most requests that wait, >= 0.
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
        """Take nothing new; those who wait keep their turn."""
        self._closed = True

    async def take(self, tenant: str) -> None:
        """Wait for a slot; whoever got one must `give_back` it.

        Raises:
            QueueFullError: Nobody else may even wait.
            QueueTimeoutError: The wait was too long.
            DrainingError: The gateway is about to stop.
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
        """End a request: its slot goes to the next tenant's next request."""
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
                self.give_back()  # our turn came in the same moment
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
            return  # handed out and skipped as cancelled
        turns.remove(turn)
        self._queued -= 1
        self._changed()
        if not turns:
            del self._waiting[tenant]
