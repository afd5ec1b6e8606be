"""Runs small jobs periodically on a thread of their own."""

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Periodic:
    """Calls `work` every `seconds` seconds, and once more when it is stopped.

    An exception from `work` does not end the thread. Each type of exception is logged once.

    Args:
        work: What to do.
        seconds: From the end of one call to the next.
        name: Of the thread, for the log.
        first: What to do once, on the thread, when it starts.
    """

    def __init__(
        self,
        work: Callable[[], object],
        *,
        seconds: float,
        name: str,
        first: Callable[[], object] | None = None,
    ) -> None:
        self._work = work
        self._first = first
        self._seconds = seconds
        self._logged: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, then call `work` a last time; idempotent."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._thread.join()
            self._call(self._work)

    def _run(self) -> None:
        if self._first is not None:
            self._call(self._first)
        while not self._stopped.wait(self._seconds):
            self._call(self._work)

    def _call(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as exc:  # noqa: BLE001  # logged; the next call may go well
            if type(exc).__name__ not in self._logged:
                self._logged.add(type(exc).__name__)
                _log.error("%s failed", self._thread.name, exc_info=exc)
