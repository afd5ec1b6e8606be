"""How many second tries all requests together may have, so that retries never become the load."""

from dataclasses import dataclass


@dataclass(slots=True)
class RetryBudget:
    """Earns a share of a try with each request, spends one with each second try.

    Starts full: when a worker dies, everything that waited on it may be replayed once.

    Attributes:
        ratio: Second tries earned by one request, 0-1.
        capacity: Most tries saved up.
    """

    ratio: float
    capacity: float
    _saved: float = -1.0

    def __post_init__(self) -> None:
        self._saved = self.capacity

    def earn(self) -> None:
        """A request arrived."""
        self._saved = min(self.capacity, self._saved + self.ratio)

    def spend(self) -> bool:
        """Take one try; False when none is left."""
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True
