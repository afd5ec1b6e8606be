"""A histogram for events of every token: it collects observations and adds them in bulk."""

import asyncio
from bisect import bisect_left
from collections.abc import Sequence

import prometheus_client

_HOLD_SECONDS = 0.5
"""The longest delay until a scraper sees a token."""


class Histogram(prometheus_client.Histogram):
    """A histogram that also takes many observations at once.

    prometheus-client has no public method for that, and its `observe` takes two locks and searches
    the buckets linearly. This subclass adds to its private value cells, which work with one process
    and with several. A test compares the result with `observe`'s.
    """

    def observe_many(self, counts: Sequence[int], total: float) -> None:
        """Add `counts[i]` observations to bucket `i`; `total` is the sum of their values."""
        self._sum.inc(total)
        for bucket, count in zip(self._buckets, counts, strict=True):
            if count:
                bucket.inc(count)


class BufferedHistogram:
    """Collects observations for one histogram; adds them on a timer or by `flush`.

    For use on one event loop.

    Args:
        histogram: A histogram without labels, or one of its children.
        buckets: Its upper bounds in ascending order, without infinity.
    """

    __slots__ = ("_bounds", "_counts", "_histogram", "_pending", "_total")

    def __init__(self, histogram: Histogram, buckets: Sequence[float]) -> None:
        self._histogram = histogram
        self._bounds = tuple(buckets)
        self._pending = False
        self._clear()

    def observe(self, value: float, times: int = 1) -> None:
        """Count `value`, `times` times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._total += value * times
        if not self._pending:
            self._pending = True
            asyncio.get_running_loop().call_later(_HOLD_SECONDS, self.flush)

    def flush(self) -> None:
        """Add the collected observations to the histogram."""
        if self._pending:
            self._histogram.observe_many(self._counts, self._total)
            self._clear()
            self._pending = False

    def _clear(self) -> None:
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0
