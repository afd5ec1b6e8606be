"""Counts of observations by bucket, and the quantiles that they allow; pure."""

from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram's observations, by bucket.

    Attributes:
        bounds: Upper bounds of the buckets, ascending, above 0, without infinity; shape (n,).
        counts: Observations in each bucket, and in the last one what exceeds all bounds; (n + 1,).
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    @property
    def total(self) -> float:
        """All observations."""
        return sum(self.counts)

    def since(self, earlier: "Distribution") -> "Distribution":
        """What was observed after `earlier`, which has the same bounds."""
        pairs = zip(self.counts, earlier.counts, strict=True)
        return Distribution(self.bounds, tuple(max(0.0, now - then) for now, then in pairs))

    def quantile(self, share: float) -> float | None:
        """The value below which a share of the observations is; None if there are none.

        Within a bucket observations are taken as evenly spread, from 0 in the first. What exceeds
        all bounds counts as the last bound. Source: Prometheus, `histogram_quantile`.

        Args:
            share: 0 to 1.
        """
        rank = share * self.total
        if not self.total:
            return None
        sums = list(accumulate(self.counts))
        at = next(i for i, below in enumerate(sums) if below >= rank and self.counts[i])
        if at == len(self.bounds):
            return self.bounds[-1]
        low = self.bounds[at - 1] if at else 0.0
        inside = (rank - (sums[at] - self.counts[at])) / self.counts[at]
        return low + max(0.0, inside) * (self.bounds[at] - low)
