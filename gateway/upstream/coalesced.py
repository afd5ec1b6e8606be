"""One call to the workers for all callers who ask at about the same time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Coalesced(Generic[T]):
    """Shares a call's result between callers: while it runs, and for `keep_seconds` after it.

    For routes without a key that ask the workers: however many callers they have, the workers get
    one request a second. An error is shared in the same way.

    Attributes:
        keep_seconds: How long a result is used.
    """

    def __init__(self, *, keep_seconds: float = 1.0) -> None:
        self._keep_seconds = keep_seconds
        self._task: asyncio.Task[T] | None = None
        self._expires = 0.0
        self._waiting = 0

    async def get(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `call`, or of an earlier one.

        A caller that is cancelled does not cancel the call, unless it is the last that waits.

        Args:
            call: The same for all callers; makes the coroutine.

        Raises:
            Exception: What the call raised.
        """
        task = self._task
        if task is None or (task.done() and asyncio.get_running_loop().time() >= self._expires):
            task = self._task = asyncio.create_task(call(), name="coalesced")
            task.add_done_callback(self._keep)
        self._waiting += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting -= 1
            if self._waiting == 0 and not task.done():
                task.cancel()
                self._task = None

    def _keep(self, task: asyncio.Task[T]) -> None:
        self._expires = task.get_loop().time() + self._keep_seconds
