"""Many streams at once: their CPU cost in the gateway, and the latest token of each."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bench.client import Crowd
from bench.pacing.figures import Played
from bench.pacing.patterns import Pattern, speculative
from bench.pacing.plan import SEED, Mode, Plan
from bench.pacing.round import Playback, play
from bench.pacing.targets import Stage

_SAMPLE_SECONDS = 0.1
_SETTLE_NS = 500_000_000


@dataclass(frozen=True, slots=True)
class Sample:
    """CPU time so far.

    Attributes:
        at_ns: CLOCK_MONOTONIC.
        gateway_ns: Of the gateway's processes; `harness_ns` of worker and client.
    """

    at_ns: int
    gateway_ns: int
    harness_ns: int


@dataclass(frozen=True, slots=True)
class CrowdReadings:
    """The readings of a crowd.

    Attributes:
        playback: Its streams.
        samples: CPU time, ten times a second.
        wanted: How many streams were to run.
    """

    playback: Playback
    samples: Sequence[Sample]
    wanted: int


def crowd_patterns(plan: Plan, tokens_per_chunk: float) -> list[Pattern]:
    """The patterns that the streams of a crowd play in turn: 50 tokens a second, with drafts.

    Args:
        plan: How long they last.
        tokens_per_chunk: Mean tokens of a chunk of the recorded worker.
    """
    tokens = round(plan.crowd_seconds * plan.crowd_rate)
    found = []
    for number in range(plan.crowd_copies):
        name = f"crowd-{number}"
        chunks = speculative(
            tokens, Random(f"{SEED} {name}"), tokens_per_chunk=max(1.0, tokens_per_chunk)
        )
        found.append(Pattern(name, "crowd", chunks))
    return found


async def measure_crowd(
    stage: Stage, patterns: Sequence[Pattern], plan: Plan, *, streams: int, mode: Mode
) -> CrowdReadings:
    """Play `streams` streams at once.

    Raises:
        MismatchError: A client assembled another text than the worker sent.
    """
    crowd = Crowd(
        at_once=streams,
        spacing_seconds=1 / plan.crowd_starts_per_second,
        limit_seconds=3 * plan.crowd_seconds + 10,
    )
    repeated = [patterns[number % len(patterns)] for number in range(streams)]
    samples: list[Sample] = []
    watching = asyncio.create_task(_watch(stage, samples))
    try:
        playback = await play(stage, repeated, mode, crowd)
    finally:
        watching.cancel()
        ended = await asyncio.gather(watching, return_exceptions=True)
    if isinstance(ended[0], Exception):
        raise ended[0]
    return CrowdReadings(playback, samples, streams)


async def _watch(stage: Stage, samples: list[Sample]) -> None:
    while True:
        harness_ns = stage.worker.cpu_ns() + time.process_time_ns()
        samples.append(Sample(time.monotonic_ns(), stage.gateway.cpu_ns(), harness_ns))
        await asyncio.sleep(_SAMPLE_SECONDS)


async def measure_idle(stage: Stage, seconds: float) -> float:
    """CPU cores that the gateway takes with nothing to do."""
    begin_ns, cpu_ns = time.monotonic_ns(), stage.gateway.cpu_ns()
    await asyncio.sleep(seconds)
    return (stage.gateway.cpu_ns() - cpu_ns) / (time.monotonic_ns() - begin_ns)


@dataclass(frozen=True, slots=True)
class CrowdFigures:
    """The cost of a crowd while all of its streams ran.

    Attributes:
        cores: CPU of the gateway; `harness_cores` of worker and client.
        tokens_per_second: That the worker sent.
        chunks_per_second: In which it sent them.
        cpu_us_per_token: CPU time of the gateway, less that of the idle gateway.
        worst_delay_ms: For each stream, the longest delay of a token from worker to client.
        errors: Streams that failed.
    """

    cores: float
    harness_cores: float
    tokens_per_second: float
    chunks_per_second: float
    cpu_us_per_token: float
    worst_delay_ms: Sequence[float]
    errors: int


def crowd_figures(readings: CrowdReadings, *, idle_cores: float) -> CrowdFigures | None:
    """Compute them; None when the streams never all ran at once, or none was good."""
    good = readings.playback.good
    if not good:
        return None
    begin_ns = max(capture.sent_ns for capture in readings.playback.captures) + _SETTLE_NS
    end_ns = min(int(each.sent_ns[-1]) for each in good)
    inside = [sample for sample in readings.samples if begin_ns <= sample.at_ns <= end_ns]
    if len(inside) < 2:
        return None
    first, last = inside[0], inside[-1]
    elapsed_ns = last.at_ns - first.at_ns
    cores = (last.gateway_ns - first.gateway_ns) / elapsed_ns
    tokens, chunks = _sent_between(good, first.at_ns, last.at_ns)
    rate = tokens / elapsed_ns * 1e9
    return CrowdFigures(
        cores=cores,
        harness_cores=(last.harness_ns - first.harness_ns) / elapsed_ns,
        tokens_per_second=rate,
        chunks_per_second=chunks / elapsed_ns * 1e9,
        cpu_us_per_token=(cores - idle_cores) / rate * 1e6 if rate else math.inf,
        worst_delay_ms=[float(each.delays_ms.max()) for each in good],
        errors=readings.wanted - len(good),
    )


def _sent_between(good: Sequence[Played], begin_ns: int, end_ns: int) -> tuple[int, int]:
    tokens = chunks = 0
    for each in good:
        inside = (each.sent_ns[:-1] >= begin_ns) & (each.sent_ns[:-1] < end_ns)
        chunks += int(inside.sum())
        tokens += int(inside[each.pattern.chunk_of_token].sum())
    return tokens, chunks
