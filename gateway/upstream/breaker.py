"""A circuit breaker: after failures in a row, leave a worker alone for a while; pure."""

from dataclasses import dataclass
from enum import Enum

_MOST_DOUBLINGS = 60  # beyond any pause, and well within a double


class BreakerState(Enum):
    """CLOSED lets everything pass, OPEN nothing, TRIAL one request that decides."""

    CLOSED = "closed"
    OPEN = "open"
    TRIAL = "trial"


@dataclass(slots=True)
class Breaker:
    """Counts failures in a row; times are monotonic seconds, passed in.

    Attributes:
        threshold: Failures in a row that open it.
        open_seconds: First time it stays open; doubles with each failed trial.
        most_open_seconds: Longest time it stays open.
    """

    threshold: int
    open_seconds: float
    most_open_seconds: float
    _failures: int = 0
    _openings: int = 0
    _open_until: float = 0.0
    _trial_running: bool = False

    def state(self, now: float) -> BreakerState:
        """What it lets pass at `now`."""
        if self._openings == 0:
            return BreakerState.CLOSED
        if self._trial_running or now < self._open_until:
            return BreakerState.OPEN
        return BreakerState.TRIAL

    def begin(self, now: float) -> None:
        """A request is sent; in TRIAL it is the one that decides."""
        if self.state(now) is BreakerState.TRIAL:
            self._trial_running = True

    def succeed(self) -> None:
        """The worker answered: close."""
        self._failures = self._openings = 0
        self._trial_running = False

    def fail(self, now: float) -> None:
        """The worker failed: count, and open at the threshold or when a trial fails."""
        self._failures += 1
        if self._trial_running or (self._openings == 0 and self._failures >= self.threshold):
            doublings = min(self._openings, _MOST_DOUBLINGS)
            self._open_until = now + min(self.open_seconds * 2.0**doublings, self.most_open_seconds)
            self._openings += 1
            self._trial_running = False

    def abandon(self) -> None:
        """The request ended and told nothing (the client left): another may be the trial."""
        self._trial_running = False
