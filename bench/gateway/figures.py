"""Figures of a round, and what a target adds over asking the worker directly. Pure.

A figure without a value (every exchange failed, or there is no process to measure) is None.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from bench.client import Exchange
from bench.gateway.plan import STREAM_CHUNKS, Plan
from bench.gateway.probes import Readings
from bench.gateway.round import RoundReadings, Spent
from bench.rounds import Summary, summary_of


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """The figures of one round on one target; times in milliseconds unless the name says else."""

    unary_p50_ms: float | None
    unary_p99_ms: float | None
    first_byte_p50_ms: float | None
    first_byte_paced_p50_ms: float | None
    stream_p50_ms: float | None
    stream_paced_p50_ms: float | None
    cpu_us_per_chunk: float | None
    cpu_us_per_chunk_light: float | None
    cpu_us_per_chunk_saturated: float | None
    idle_cpu_ratio: float | None
    chunks_per_second: float | None
    streams_1000_errors: int | None
    streams_1000_rss_mb: float | None
    streams_1000_probe_p50_ms: float | None
    streams_1000_probe_p99_ms: float | None
    errors: int


ADDED = (
    "unary_p50_ms",
    "unary_p99_ms",
    "first_byte_p50_ms",
    "first_byte_paced_p50_ms",
    "stream_p50_ms",
    "stream_paced_p50_ms",
)
"""Figures from which those of direct requests are subtracted, round by round."""


def figures_of(readings: RoundReadings, plan: Plan) -> RoundFigures:
    """Compute every figure of one round."""
    crowd = readings.crowd
    light_chunks = len(readings.light.streams.exchanges) * plan.steady.chunks
    loaded_chunks = len(readings.loaded.streams.exchanges) * plan.steady.chunks
    saturated_chunks = len(readings.saturation.exchanges) * STREAM_CHUNKS
    idle = readings.idle_spent
    return RoundFigures(
        unary_p50_ms=percentile_ms(_whole_ns(readings.unary), 0.50),
        unary_p99_ms=percentile_ms(_whole_ns(readings.unary), 0.99),
        first_byte_p50_ms=percentile_ms(_first_byte_ns(readings.short), 0.50),
        first_byte_paced_p50_ms=percentile_ms(_first_byte_ns(readings.short_paced), 0.50),
        stream_p50_ms=percentile_ms(_whole_ns(readings.burst), 0.50),
        stream_paced_p50_ms=percentile_ms(_whole_ns(readings.paced), 0.50),
        cpu_us_per_chunk=_cpu_us_per_chunk(readings.loaded_spent, idle, loaded_chunks),
        cpu_us_per_chunk_light=_cpu_us_per_chunk(readings.light_spent, idle, light_chunks),
        cpu_us_per_chunk_saturated=_cpu_us_per_chunk(
            readings.saturation_spent, idle, saturated_chunks
        ),
        idle_cpu_ratio=idle.cpu_ns / idle.elapsed_ns if idle.cpu_ns else None,
        chunks_per_second=_per_second(saturated_chunks, readings.saturation),
        streams_1000_errors=None if crowd is None else len(crowd.streams.flaws),
        streams_1000_rss_mb=None
        if crowd is None or not crowd.resident_bytes
        else max(crowd.resident_bytes) / 2**20,
        streams_1000_probe_p50_ms=None
        if crowd is None
        else percentile_ms(_whole_ns(crowd.probes), 0.50),
        streams_1000_probe_p99_ms=None
        if crowd is None
        else percentile_ms(_whole_ns(crowd.probes), 0.99),
        errors=len(flaws_of(readings)),
    )


def added_over(
    direct: Sequence[RoundFigures], ours: Sequence[RoundFigures], name: str
) -> Summary | None:
    """What going through a target adds to figure `name`: differences round by round."""
    differences = []
    for base, measured in zip(direct, ours, strict=True):
        before, after = getattr(base, name), getattr(measured, name)
        if before is not None and after is not None:
            differences.append(after - before)
    return summary_of(differences)


def over_rounds(rounds: Sequence[RoundFigures], name: str) -> Summary | None:
    """Figure `name` over the rounds."""
    return summary_of([value for figures in rounds if (value := asdict(figures)[name]) is not None])


def absolute_names() -> list[str]:
    """The figures that are reported as they are; errors are added up instead."""
    known = [field.name for field in fields(RoundFigures) if field.name != "errors"]
    return [name for name in known if name not in ADDED]


def flaws_of(readings: RoundReadings) -> list[str]:
    """Why exchanges of this round were not good, one reason each."""
    runs = [readings.unary, readings.short, readings.short_paced, readings.burst, readings.paced]
    runs += [readings.light.streams, readings.light.probes, readings.loaded.streams]
    runs += [readings.loaded.probes, readings.saturation]
    if readings.crowd is not None:
        runs += [readings.crowd.streams, readings.crowd.probes]
    return [flaw for run in runs for flaw in run.flaws]


def percentile_ms(durations_ns: Sequence[int], ratio: float) -> float | None:
    """Nearest-rank percentile in milliseconds; None of nothing."""
    if not durations_ns:
        return None
    rank = max(1, math.ceil(ratio * len(durations_ns)))
    return sorted(durations_ns)[rank - 1] / 1e6


def _whole_ns(readings: Readings) -> list[int]:
    return [exchange.end_ns - exchange.sent_ns for exchange in readings.exchanges]


def _first_byte_ns(readings: Readings) -> list[int]:
    return [_first_byte_of(exchange) for exchange in readings.exchanges]


def _first_byte_of(exchange: Exchange) -> int:
    return exchange.first_byte_ns - exchange.sent_ns


def _cpu_us_per_chunk(spent: Spent, idle: Spent, chunks: int) -> float | None:
    if not chunks or not spent.cpu_ns:
        return None
    idle_ns = idle.cpu_ns / idle.elapsed_ns * spent.elapsed_ns
    return (spent.cpu_ns - idle_ns) / chunks / 1e3


def _per_second(count: int, run: Readings) -> float | None:
    if not count:
        return None
    return count * 1e9 / (run.ended_ns - run.began_ns)
