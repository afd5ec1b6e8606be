"""Detects a worker that stays silent while the gateway waits for it.

Setting a timer for each chunk, as HTTP clients do, costs more than reading the chunk. Here one
timer for the whole answer checks now and then when the current wait began.
"""

import asyncio
from collections.abc import Callable


class SilenceWatch:
    """Calls `on_silence` once, when one wait has lasted `seconds`.

    Time in which nobody waits (the client is slow, so the gateway does not read) does not count.

    Attributes:
        waiting_since: Set to `loop.time()` before each wait and to None after it. An attribute, not
            a method, because it is set for every chunk.
    """

    __slots__ = ("_loop", "_on_silence", "_seconds", "_timer", "waiting_since")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, on_silence: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._on_silence = on_silence
        self.waiting_since: float | None = None
        self._timer = loop.call_later(seconds, self._check)

    def stop(self) -> None:
        """Stop watching."""
        self._timer.cancel()

    def _check(self) -> None:
        since, now = self.waiting_since, self._loop.time()
        due = (now if since is None else since) + self._seconds
        if due <= now:
            self._on_silence()
        else:
            self._timer = self._loop.call_at(due, self._check)
