"""How long to wait before the next start of a worker that keeps failing; pure."""

from dataclasses import dataclass

_MOST_DOUBLINGS = 60  # beyond any pause, and well within a double


@dataclass(slots=True)
class Backoff:
    """Doubles from `first_seconds` to `most_seconds`; a life of `reset_seconds` begins anew."""

    first_seconds: float
    most_seconds: float
    reset_seconds: float
    _failures: int = 0

    def after(self, lived_seconds: float) -> float:
        """Pause after a worker that lived so long; the first restart is immediate."""
        if lived_seconds >= self.reset_seconds:
            self._failures = 0
        self._failures += 1
        if self._failures == 1:
            return 0.0
        doublings = min(self._failures - 2, _MOST_DOUBLINGS)
        return min(self.first_seconds * 2.0**doublings, self.most_seconds)
