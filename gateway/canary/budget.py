"""How much of the time may be spent on second askings. Pure."""


class TimeBudget:
    """After a second asking a pause follows, so long that its share of both is `most`.

    Args:
        most: Largest share of the time, 0 < most <= 1.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._next_seconds = float("-inf")

    def spend(self, began: float, ended: float) -> None:
        """Count a second asking, between two readings of a monotonic clock."""
        self._next_seconds = began + (ended - began) / self._most

    def pause_seconds(self, now: float) -> float:
        """How long to wait before the next one."""
        return max(0.0, self._next_seconds - now)
