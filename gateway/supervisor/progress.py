"""Decide from readings whether a worker with open requests makes progress; pure.

A working engine counts iterations. A hung one does not, although vLLM's `/health` still answers
200. Open requests alone prove nothing, because a slow client keeps a finished answer open. So
after half of the time-out a one-token request is sent: a working engine counts an iteration for
it, a hung one does not.
"""

from dataclasses import dataclass
from enum import Enum


class Progress(Enum):
    """MOVING: nothing to do. SUSPECT: send the trial request now. STALLED: restart."""

    MOVING = "moving"
    SUSPECT = "suspect"
    STALLED = "stalled"


@dataclass(slots=True)
class ProgressWatch:
    """Judges readings in order of time.

    Attributes:
        patience_seconds: Open requests without an iteration for this time are a stall.
    """

    patience_seconds: float
    _iterations: float | None = None
    _still_since: float | None = None
    _tried: bool = False

    def judge(self, *, now: float, open_requests: int, iterations: float) -> Progress:
        """Judge one reading.

        Args:
            now: Monotonic seconds.
            open_requests: Requests the worker has not finished answering.
            iterations: The engine's iteration counter; only its changes matter.
        """
        moved = iterations != self._iterations
        self._iterations = iterations
        if moved or open_requests == 0:
            self._still_since, self._tried = None, False
            return Progress.MOVING
        if self._still_since is None:
            self._still_since = now
        still = now - self._still_since
        if still >= self.patience_seconds and self._tried:
            return Progress.STALLED
        if still >= self.patience_seconds / 2 and not self._tried:
            self._tried = True
            return Progress.SUSPECT
        return Progress.MOVING
