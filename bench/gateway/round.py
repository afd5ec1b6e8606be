"""One round on one target: every probe of the plan, and the target's CPU time around two of them.

It returns raw readings; `figures` computes milliseconds and microseconds from them.
"""

import asyncio
import time
from dataclasses import dataclass

from bench.gateway.plan import Plan
from bench.gateway.probes import CrowdReadings, Readings, at_saturation, in_crowd, in_sequence
from loadtest.processes import ChildProcess


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured.

    Attributes:
        process: The router in front of the worker; None when the worker is asked directly.
    """

    name: str
    port: int
    process: ChildProcess | None

    def cpu_ns(self) -> int:
        """CPU time so far; zero without a process."""
        return self.process.cpu_ns() if self.process is not None else 0


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU time of the target during a run.

    Attributes:
        cpu_ns: On all its threads.
        elapsed_ns: The run's length.
    """

    cpu_ns: int
    elapsed_ns: int


@dataclass(frozen=True, slots=True)
class RoundReadings:
    """The raw readings of one round on one target."""

    unary: Readings
    short: Readings
    short_paced: Readings
    burst: Readings
    paced: Readings
    light: CrowdReadings
    loaded: CrowdReadings
    saturation: Readings
    crowd: CrowdReadings | None
    idle_spent: Spent
    light_spent: Spent
    loaded_spent: Spent
    saturation_spent: Spent


async def measure_round(target: Target, plan: Plan, *, with_crowd: bool) -> RoundReadings:
    """Run every probe of `plan` once.

    Raises:
        OSError: The target does not accept connections.
    """
    port, warm_up = target.port, plan.warm_up
    unary = await in_sequence(port, plan.unary, count=plan.unary_count, warm_up=warm_up)
    count = plan.first_byte_count
    short = await in_sequence(port, plan.short, count=count, warm_up=warm_up)
    short_paced = await in_sequence(port, plan.short_paced, count=count, warm_up=1)
    burst = await in_sequence(port, plan.burst, count=plan.burst_count, warm_up=3)
    paced = await in_sequence(port, plan.paced, count=plan.paced_count, warm_up=1)
    meter = _Meter(target)
    await asyncio.sleep(plan.idle_seconds)
    idle_spent = meter.lap()
    light = await _measure_steady(target, plan, streams=plan.light_streams)
    light_spent = meter.lap()
    loaded = await _measure_steady(target, plan, streams=plan.loaded_streams)
    loaded_spent = meter.lap()
    saturation = await at_saturation(
        port,
        plan.burst,
        connections=plan.saturation_connections,
        seconds=plan.saturation_seconds,
    )
    saturation_spent = meter.lap()
    crowd = await _measure_crowd(target, plan) if with_crowd else None
    return RoundReadings(
        unary=unary,
        short=short,
        short_paced=short_paced,
        burst=burst,
        paced=paced,
        light=light,
        loaded=loaded,
        saturation=saturation,
        crowd=crowd,
        idle_spent=idle_spent,
        light_spent=light_spent,
        loaded_spent=loaded_spent,
        saturation_spent=saturation_spent,
    )


async def _measure_steady(target: Target, plan: Plan, *, streams: int) -> CrowdReadings:
    return await in_crowd(
        target.port,
        plan.steady,
        streams=streams,
        ramp_seconds=plan.steady_gap_seconds,  # spreads them evenly over the gap
        limit_seconds=plan.limit_of(plan.steady_seconds),
        target_memory=None,
    )


async def _measure_crowd(target: Target, plan: Plan) -> CrowdReadings:
    return await in_crowd(
        target.port,
        plan.crowd,
        streams=plan.crowd_streams,
        ramp_seconds=plan.crowd_ramp_seconds,
        limit_seconds=plan.limit_of(plan.crowd_seconds),
        target_memory=target.process.resident_bytes if target.process is not None else None,
    )


class _Meter:
    """CPU time of a target between two looks."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._cpu_ns = target.cpu_ns()
        self._clock_ns = time.monotonic_ns()

    def lap(self) -> Spent:
        """What was spent since the last look."""
        cpu_ns, clock_ns = self._target.cpu_ns(), time.monotonic_ns()
        spent = Spent(cpu_ns=cpu_ns - self._cpu_ns, elapsed_ns=clock_ns - self._clock_ns)
        self._cpu_ns, self._clock_ns = cpu_ns, clock_ns
        return spent
