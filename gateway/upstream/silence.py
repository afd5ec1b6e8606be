"""Notices a worker that stays silent while we wait for it.

To arm a timer anew for each piece, as HTTP clients do, costs more than to read it when thousands
come a second. Here one timer an answer looks, rarely, when the wait began.
"""

import asyncio
from collections.abc import Callable


class SilenceWatch:
    """Calls `on_silence` once, when one wait has lasted `seconds`.

    Time in which nobody waits (the client is slow, so we do not read) is not the worker's.

    Attributes:
        waiting_since: Set to `loop.time()` before each wait and to None after it. An attribute and
            no method, because this happens for every chunk.
    """

    __slots__ = ("_loop", "_on_silence", "_seconds", "_timer", "waiting_since")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, on_silence: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._on_silence = on_silence
        self.waiting_since: float | None = None
        self._timer = loop.call_later(seconds, self._look)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        since, now = self.waiting_since, self._loop.time()
        due = (now if since is None else since) + self._seconds
        if due <= now:
            self._on_silence()
        else:
            self._timer = self._loop.call_at(due, self._look)
