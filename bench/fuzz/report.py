"""The JSON line of `make fuzz`, and whether the run has passed."""

import statistics
from collections import Counter
from collections.abc import Sequence

from bench.fuzz.plan import LEAST_CASES, MOST_BLOCK_MS, MOST_POLITE_RATIO, MOST_SHARE
from bench.fuzz.run import Measured
from bench.fuzz.slow_clients import SlowFigures
from bench.fuzz.tenants import FloodFigures
from bench.rounds import Json

FUZZERS = ("requests", "description", "answers", "large frames")
"""Whose blocks of the loop count: the others ask for more than one case's work at once."""
DEFINITIONS = {
    "own_5xx": "answers with status 500, and on the client's side any 5xx",
    "crashes": "log lines of an exception that nothing handled, lost connections, requests that "
    "were smuggled to the worker, answers that went to another request",
    "hangs": "connections that were not closed in time after the client's end",
    "wrong_answers": "good requests that were refused, and answers that are no HTTP",
    "wrong_endings": "streams with no ending or several, cut answers, statuses that a worker's "
    "fault does not have",
    "loop_block_ms_max": "longest time that a callback kept the event loop, in the thread's own "
    "CPU time, while cases were played",
    "failing_worker_share": "of three workers the one that answers 500 at once: requests that "
    "reached it, over all that were sent, from 5 s on",
    "slow_*": "connections that send a byte a second; kept: they were neither refused nor closed",
    "polite_p99_over_quiet": "latency of a tenant that sends one request after the other beside "
    "50 that fill slots and queue, over that without them",
}


def report(measured: Measured, *, seed: int) -> Json:
    """Everything that was found."""
    counts: Counter[str] = Counter()
    for findings in measured.findings.values():
        counts += findings.counts
    found: Json = {
        "bench": "fuzz",
        "seed": seed,
        "cases": sum(findings.cases for findings in measured.findings.values()),
        "own_5xx": counts["own_5xx"],
        "crashes": counts["crash"] + counts["smuggled"] + counts["crossed"],
        "hangs": counts["hang"],
        "wrong_answers": counts["wrong_answer"],
        "wrong_endings": counts["wrong_ending"],
        "loop_block_ms_max": max(measured.block_ms.get(name, 0.0) for name in FUZZERS),
        "failing_worker_share": None if measured.share is None else measured.share.ratio,
        "failing_worker_failed": None if measured.share is None else measured.share.failed,
        "loop_block_ms": measured.block_ms,
        "by_fuzzer": {
            name: {"cases": findings.cases, "endings": dict(findings.by_status.most_common())}
            for name, findings in measured.findings.items()
            if findings.cases
        },
        "findings": [
            f"{finding.kind} {finding.case}"
            for findings in measured.findings.values()
            for finding in findings.first
        ],
        "definitions": DEFINITIONS,
    }
    if measured.slow is not None:
        found |= _slow(measured.slow)
    if measured.flood is not None:
        found |= _flooded(measured.flood)
    return found


def is_passed(found: Json, *, is_quick: bool) -> bool:
    """Whether nothing was found and every figure is within its bound."""
    faults = ("own_5xx", "crashes", "hangs", "wrong_answers", "wrong_endings")
    bounds = {
        "loop_block_ms_max": MOST_BLOCK_MS,
        "failing_worker_share": MOST_SHARE,
        "polite_p99_over_quiet": MOST_POLITE_RATIO,
        "polite_failures": 0,
        "slow_kept": 0,
        "slow_beside_failed": 0,
    }
    return (
        not any(found[name] for name in faults)
        and all((found.get(name) or 0) <= bound for name, bound in bounds.items())
        and (is_quick or found["cases"] >= LEAST_CASES)
    )


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that `share` of all values do not exceed; None without values."""
    if not values:
        return None
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _slow(slow: SlowFigures) -> Json:
    p99 = percentile(slow.ordinary, 0.99)
    return {
        "slow_heads": dict(slow.heads),
        "slow_bodies": dict(slow.bodies),
        "slow_kept": slow.heads["open"] + slow.bodies["open"],
        "slow_longest_seconds": slow.longest_seconds,
        "slow_beside_answered": len(slow.ordinary),
        "slow_beside_failed": slow.failed,
        "slow_beside_p99_ms": None if p99 is None else p99 * 1e3,
        "slow_grown_mib": slow.grown_mib,
    }


def _flooded(flood: FloodFigures) -> Json:
    quiet, flooded = percentile(flood.quiet, 0.99), percentile(flood.flooded, 0.99)
    assert quiet is not None
    assert flooded is not None
    return {
        "polite_p99_over_quiet": flooded / quiet,
        "polite_p50_over_quiet": statistics.median(flood.flooded) / statistics.median(flood.quiet),
        "polite_failures": flood.polite_failures,
        "flood_served": flood.served,
        "flood_refused": flood.refused,
    }
