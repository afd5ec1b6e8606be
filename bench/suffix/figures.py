"""Arithmetic over replays: sums over data sets, rates, ratios over rounds, and the trade-off."""

from collections.abc import Mapping, Sequence

from bench.suffix.replay import Figures

DRAFTED_SHARE = 0.85  # the trade-off is read where ours drafts so much of what the peer drafts


def pooled(replay: Mapping[str, Figures], names: Sequence[str]) -> Figures:
    """Add up some data sets, so that each weighs as it is long."""
    return sum((replay[name] for name in names), Figures())


def ratio(ours: float, theirs: float) -> float | None:
    """None where there is nothing to compare with."""
    return ours / theirs if theirs else None


def accepted_at_drafted(curve: Sequence[Figures], drafted_per_step: float) -> float | None:
    """Accepted tokens a step where ours drafts so many, between two thresholds linearly.

    Args:
        curve: The same requests at several thresholds, in any order.
        drafted_per_step: Where to read the curve.

    Returns:
        None when every threshold drafts more. When every one drafts less, what the most generous
        one gets accepted: a lower bound.
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
