"""A circuit breaker: after consecutive failures a worker gets no requests for a while; pure."""

from dataclasses import dataclass
from enum import Enum

_MAX_DOUBLINGS = 60  # longer than any pause, and no float overflow


class BreakerState(Enum):
    """CLOSED lets all requests pass, OPEN none, TRIAL a single one, which decides."""

    CLOSED = "closed"
    OPEN = "open"
    TRIAL = "trial"


@dataclass(slots=True)
class Breaker:
    """Counts consecutive failures; times are monotonic seconds, passed in.

    Attributes:
        threshold: Consecutive failures that open it.
        open_seconds: How long it stays open at first; doubles with each failed trial.
        max_open_seconds: Upper limit of that time.
    """

    threshold: int
    open_seconds: float
    max_open_seconds: float
    _failures: int = 0
    _openings: int = 0
    _open_until: float = 0.0
    _trial_running: bool = False

    def state(self, now: float) -> BreakerState:
        """The state at `now`."""
        if self._openings == 0:
            return BreakerState.CLOSED
        if self._trial_running or now < self._open_until:
            return BreakerState.OPEN
        return BreakerState.TRIAL

    def begin(self, now: float) -> None:
        """Record that a request is sent; in TRIAL it becomes the trial."""
        if self.state(now) is BreakerState.TRIAL:
            self._trial_running = True

    def succeed(self) -> None:
        """Record an answer: close."""
        self._failures = self._openings = 0
        self._trial_running = False

    def fail(self, now: float) -> None:
        """Record a failure: open at the threshold, or if it was the trial."""
        self._failures += 1
        if self._trial_running or (self._openings == 0 and self._failures >= self.threshold):
            doublings = min(self._openings, _MAX_DOUBLINGS)
            self._open_until = now + min(self.open_seconds * 2.0**doublings, self.max_open_seconds)
            self._openings += 1
            self._trial_running = False

    def abandon(self) -> None:
        """Record a request without a result (the client left): another may be the trial."""
        self._trial_running = False
