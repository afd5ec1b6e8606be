"""Arithmetic over replays: sums over data sets, ratios, and accepted against drafted tokens."""

from collections.abc import Mapping, Sequence

from bench.suffix.replay import Figures

DRAFTED_SHARE = 0.85  # of the peer's drafted tokens: where accepted tokens are compared


def pooled(replay: Mapping[str, Figures], names: Sequence[str]) -> Figures:
    """Add up some data sets, so that each is weighted by its length."""
    return sum((replay[name] for name in names), Figures())


def ratio(ours: float, theirs: float) -> float | None:
    """None where there is nothing to compare with."""
    return ours / theirs if theirs else None


def accepted_at_drafted(curve: Sequence[Figures], drafted_per_step: float) -> float | None:
    """Accepted tokens per step at a number of drafted ones, interpolated between thresholds.

    Args:
        curve: The same requests at several thresholds, in any order.
        drafted_per_step: Where to read the curve.

    Returns:
        None when every threshold drafts more. When every one drafts less, the accepted tokens of
        the lowest threshold: a lower bound.
    """
    points = sorted({(point.drafted_per_step, point.accepted_per_step) for point in curve})
    below = [point for point in points if point[0] <= drafted_per_step]
    above = [point for point in points if point[0] > drafted_per_step]
    if not below:
        return None
    if not above:
        return below[-1][1]
    (x0, y0), (x1, y1) = below[-1], above[0]
    return y0 + (y1 - y0) * (drafted_per_step - x0) / (x1 - x0)
