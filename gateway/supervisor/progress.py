"""Is a worker that has requests getting on with them? Pure: readings in, verdict out.

A busy engine counts iterations; a hung one does not, and vLLM's `/health` stays green. Open
requests alone prove nothing (a slow reader keeps an answer open that the engine has long
finished), so half-way through the patience a one-token request is sent: an engine that works
moves its counter for it, an engine that hangs does not.
"""

from dataclasses import dataclass
from enum import Enum


class Progress(Enum):
    """MOVING: all is well. SUSPECT: send the trial request now. STALLED: restart."""

    MOVING = "moving"
    SUSPECT = "suspect"
    STALLED = "stalled"


@dataclass(slots=True)
class ProgressWatch:
    """Judges readings in order of time.

    Attributes:
        patience_seconds: Requests open and no iteration for so long is a stall.
    """

    patience_seconds: float
    _iterations: float | None = None
    _still_since: float | None = None
    _tried: bool = False

    def judge(self, *, now: float, open_requests: int, iterations: float) -> Progress:
        """Take one reading.

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
