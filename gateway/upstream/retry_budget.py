"""Limits the retries of all requests together, so that retries cannot overload the workers."""

from dataclasses import dataclass


@dataclass(slots=True)
class RetryBudget:
    """Each request earns a share of a retry; each retry spends one.

    Starts full, so that all requests of a worker that dies can be replayed once.

    Attributes:
        ratio: Retries earned by one request, 0-1.
        capacity: Most retries saved up.
    """

    ratio: float
    capacity: float
    _saved: float = -1.0

    def __post_init__(self) -> None:
        self._saved = self.capacity

    def earn(self) -> None:
        """Add the share of a new request."""
        self._saved = min(self.capacity, self._saved + self.ratio)

    def spend(self) -> bool:
        """Take one retry; False if none is left."""
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True
