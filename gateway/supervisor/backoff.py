"""The pause before the next start of a worker that keeps failing; pure."""

from dataclasses import dataclass

_MOST_DOUBLINGS = 60  # more than any pause needs, and no overflow


@dataclass(slots=True)
class Backoff:
    """Doubles from `first_seconds` to `most_seconds`; resets after a run of `reset_seconds`."""

    first_seconds: float
    most_seconds: float
    reset_seconds: float
    _failures: int = 0

    def after(self, lived_seconds: float) -> float:
        """Pause in seconds after a run of `lived_seconds`; the first restart is immediate."""
        if lived_seconds >= self.reset_seconds:
            self._failures = 0
        self._failures += 1
        if self._failures == 1:
            return 0.0
        doublings = min(self._failures - 2, _MOST_DOUBLINGS)
        return min(self.first_seconds * 2.0**doublings, self.most_seconds)
