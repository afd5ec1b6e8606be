"""What the times between two pieces of a stream say about steps, in each phase."""

from collections.abc import Mapping, Sequence

from bench.rounds import Json

QUIET, LOADING, TRIAL = "quiet", "loading", "trial"


def report(
    gaps: Mapping[str, Sequence[float]], tokens: Mapping[str, int], load_seconds: Sequence[float]
) -> Json:
    """Return the JSON line: times in milliseconds, and the longest over the quiet 99th percentile.

    Args:
        gaps: Seconds between two pieces of a stream, by phase.
        tokens: Tokens that came in these times, by phase.
        load_seconds: How long each head took to load.
    """
    usual = percentile(gaps[QUIET], 0.99)
    found: Json = {"load_seconds": list(load_seconds)}
    for phase, some in gaps.items():
        found[phase] = {
            "steps": len(some),
            "tokens_per_second": tokens[phase] / sum(some),
            "median_ms": 1000 * percentile(some, 0.5),
            "p99_ms": 1000 * percentile(some, 0.99),
            "longest_ms": 1000 * max(some),
            "longest_over_quiet_p99": max(some) / usual,
            "p99_over_quiet_p99": percentile(some, 0.99) / usual,
        }
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
