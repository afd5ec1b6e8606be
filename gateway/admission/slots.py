"""Bounded concurrency with a bounded, fair queue.

Tenants take turns: a burst from one tenant delays its own requests, not those of the others. A full
queue makes room for a tenant that has fewer waiting requests than another.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from gateway.errors import DrainingError, QueueFullError, QueueTimeoutError

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A bounded queue whose tenants take turns; every operation is O(1).

    When it is full, a tenant displaces the newest item of the tenant that has the most, unless it
    would then have as many itself. So one tenant alone may fill the queue, and no other is refused
    because of that.

    Args:
        most: Maximum number of items, >= 0.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._length = 0
        self._items: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()  # in turn
        self._tenants_with: dict[int, dict[str, None]] = {}  # number of items -> tenants
        self._largest = 0  # items of the tenant that has the most

    def __len__(self) -> int:
        return self._length

    def admits(self, tenant: str) -> bool:
        """Whether `push` has room for an item of `tenant`."""
        own = len(self._items.get(tenant, ()))
        return self._length < self._most or own + 1 < self._largest

    def push(self, tenant: str, item: T) -> T | None:
        """Append an item that the queue `admits`; returns the one that it displaces, if any."""
        displaced = None
        if self._length >= self._most:
            largest = next(iter(self._tenants_with[self._largest]))
            displaced, _ = self._items[largest].popitem()
            self._lost_one(largest)
        items = self._items.setdefault(tenant, OrderedDict())
        items[item] = None
        self._length += 1
        self._recount(tenant, before=len(items) - 1, after=len(items))
        return displaced

    def pop(self) -> T:
        """Remove the oldest item of the next tenant; the queue must not be empty."""
        tenant, items = next(iter(self._items.items()))
        item, _ = items.popitem(last=False)
        self._items.move_to_end(tenant)
        self._lost_one(tenant)
        return item

    def remove(self, tenant: str, item: T) -> bool:
        """Remove an item wherever it stands; False if it is not in the queue."""
        items = self._items.get(tenant)
        if items is None or item not in items:
            return False
        del items[item]
        self._lost_one(tenant)
        return True

    def _lost_one(self, tenant: str) -> None:
        left = len(self._items[tenant])
        if not left:
            del self._items[tenant]
        self._length -= 1
        self._recount(tenant, before=left + 1, after=left)

    def _recount(self, tenant: str, *, before: int, after: int) -> None:
        """Note that a tenant gained or lost one item."""
        if before:
            self._tenants_with[before].pop(tenant)
        if after:
            self._tenants_with.setdefault(after, {})[tenant] = None
        if after > self._largest or (before == self._largest and not self._tenants_with[before]):
            self._largest = after
        if before and not self._tenants_with[before]:
            del self._tenants_with[before]


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
        self._timeout_seconds = timeout_seconds
        self._on_change = on_change
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue(queued)
        self._running = 0
        self._closed = False

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return self._running

    @property
    def queued(self) -> int:
        """Requests that wait for one."""
        return len(self._queue)

    def close(self) -> None:
        """Refuse new requests; those in the queue stay there."""
        self._closed = True

    def check(self, tenant: str) -> None:
        """Refuse a request that could not even wait; takes nothing.

        Raises:
            QueueFullError: The queue is full, and no other tenant has much more of it.
            DrainingError: The gateway is shutting down.
        """
        if self._closed:
            raise DrainingError("This server is shutting down.", retry_after_seconds=1.0)
        if not self._is_free() and not self._queue.admits(tenant):
            raise self._full()

    async def take(self, tenant: str) -> None:
        """Wait for a slot; the caller must `give_back` it.

        Raises:
            QueueFullError: As `check`, or another tenant's request has displaced this one.
            QueueTimeoutError: No slot became free within `timeout_seconds`.
            DrainingError: The gateway is shutting down.
        """
        self.check(tenant)
        if self._is_free():
            self._free -= 1
            self._running += 1
            self._changed()
        else:
            await self._wait(tenant)

    def give_back(self) -> None:
        """End a request: its slot goes to the first request of the next tenant."""
        self._running -= 1
        self._free += 1
        self._hand_out()
        self._changed()

    def _is_free(self) -> bool:
        return self._free > 0 and not self._queue

    def _full(self) -> QueueFullError:
        return QueueFullError(
            "The server is at capacity.", retry_after_seconds=self._timeout_seconds / 2
        )

    def _changed(self) -> None:
        self._on_change(self._running, len(self._queue))

    async def _wait(self, tenant: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        displaced = self._queue.push(tenant, turn)
        if displaced is not None and not displaced.done():
            displaced.set_exception(self._full())
        self._changed()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await turn
        except BaseException as error:
            if self._queue.remove(tenant, turn):
                self._changed()
            elif not turn.cancelled() and turn.exception() is None:
                self.give_back()  # the slot was given in the same loop turn
            if isinstance(error, TimeoutError):
                raise QueueTimeoutError(
                    "The server is at capacity; the request waited its time.",
                    retry_after_seconds=self._timeout_seconds / 2,
                ) from error
            raise

    def _hand_out(self) -> None:
        while self._free and self._queue:
            turn = self._queue.pop()
            if not turn.cancelled():
                self._free -= 1
                self._running += 1
                turn.set_result(None)
