"""How much counters rose in the last minute; pure."""

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

SECONDS = 60.0


class Recent(Generic[K]):
    """Remembers the counters of the last minute, to tell how much each rose."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Mapping[K, int]]] = deque()

    def rise(self, counts: Mapping[K, int], now: float) -> tuple[dict[K, int], float]:
        """Take in the counters.

        Args:
            counts: Now; they only rise, and new ones begin at 0.
            now: Any clock, in seconds.

        Returns:
            How much each rose, and in how many seconds: a minute, less at the start.
        """
        self._seen.append((now, dict(counts)))
        while len(self._seen) > 1 and self._seen[1][0] <= now - SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        return {name: count - before.get(name, 0) for name, count in counts.items()}, now - then
