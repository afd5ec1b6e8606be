"""Probes of one target: sequences, saturation, many slow streams; they return raw readings.

A failed exchange is a reading too: it is recorded with its reason and never retried.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bench.calls import Call, unary_call
from bench.client import Exchange, LoadConnection

_TIMEOUT_SECONDS = 30.0
_PROBE_SECONDS = 0.05


@dataclass(slots=True)
class Readings:
    """Results of a run of exchanges.

    Attributes:
        exchanges: The good ones.
        flaws: One reason for each that was not.
        began_ns: Clock at the start of the run; `ended_ns` at its end.
    """

    exchanges: list[Exchange] = field(default_factory=list)
    flaws: list[str] = field(default_factory=list)
    began_ns: int = 0
    ended_ns: int = 0


@dataclass(slots=True)
class CrowdReadings:
    """Results of many slow streams at once.

    Attributes:
        streams: The streams themselves.
        probes: Light unary requests sent meanwhile, one after the other.
        resident_bytes: Memory of the target, sampled.
    """

    streams: Readings
    probes: Readings
    resident_bytes: list[int] = field(default_factory=list)


async def in_sequence(port: int, call: Call, *, count: int, warm_up: int) -> Readings:
    """`count` exchanges on one connection, one after the other."""
    discarded, readings = Readings(), Readings()
    connection = await LoadConnection.open(port)
    try:
        for _ in range(warm_up):
            await _exchange(connection, call, discarded)
        readings.began_ns = time.monotonic_ns()
        for _ in range(count):
            await _exchange(connection, call, readings)
        readings.ended_ns = time.monotonic_ns()
    finally:
        connection.close()
    return readings


async def at_saturation(port: int, call: Call, *, connections: int, seconds: float) -> Readings:
    """As many exchanges as `connections` can do in `seconds`, each starting the next at once."""
    readings = Readings()
    opened = [await LoadConnection.open(port) for _ in range(connections)]

    async def keep_going(connection: LoadConnection) -> None:
        while time.monotonic_ns() < stop_ns:
            await _exchange(connection, call, readings)

    readings.began_ns = time.monotonic_ns()
    stop_ns = readings.began_ns + int(seconds * 1e9)
    try:
        async with asyncio.TaskGroup() as group:
            for connection in opened:
                group.create_task(keep_going(connection))
        readings.ended_ns = time.monotonic_ns()
    finally:
        for connection in opened:
            connection.close()
    return readings


async def in_crowd(
    port: int,
    call: Call,
    *,
    streams: int,
    ramp_seconds: float,
    limit_seconds: float,
    target_memory: Callable[[], int] | None,
) -> CrowdReadings:
    """`streams` streams at once, started evenly over `ramp_seconds`, with a light probe beside.

    Args:
        port: Where the target listens.
        call: What each stream asks for.
        streams: How many there are.
        ramp_seconds: From the first start to the last.
        limit_seconds: Longest time one may take; longer is an error.
        target_memory: Reads the target's memory, four times a second; None: do not read it.
    """
    crowd = CrowdReadings(streams=Readings(), probes=Readings())

    async def one(index: int) -> None:
        await asyncio.sleep(ramp_seconds * index / streams)
        try:
            connection = await LoadConnection.open(port)
        except OSError as error:
            crowd.streams.flaws.append(f"connect: {error}")
            return
        try:
            await _exchange(connection, call, crowd.streams, timeout_seconds=limit_seconds)
        finally:
            connection.close()

    async def watch() -> None:
        while True:
            if target_memory is not None:
                crowd.resident_bytes.append(target_memory())
            await asyncio.sleep(0.25)

    beside = [asyncio.create_task(watch()), asyncio.create_task(_probe(port, crowd.probes))]
    crowd.streams.began_ns = time.monotonic_ns()
    try:
        await _all(one, streams)
        crowd.streams.ended_ns = time.monotonic_ns()
    finally:
        for task in beside:
            task.cancel()
        ended = await asyncio.gather(*beside, return_exceptions=True)
    for outcome in ended:
        if isinstance(outcome, Exception):
            raise outcome
    return crowd


async def _all(one: Callable[[int], Awaitable[None]], count: int) -> None:
    await asyncio.gather(*(one(index) for index in range(count)))


async def _probe(port: int, readings: Readings) -> None:
    connection = await LoadConnection.open(port)
    try:
        while True:
            await _exchange(connection, unary_call(), readings)
            await asyncio.sleep(_PROBE_SECONDS)
    finally:
        connection.close()


async def _exchange(
    connection: LoadConnection,
    call: Call,
    readings: Readings,
    *,
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> None:
    exchange = await connection.exchange(call.request, timeout_seconds=timeout_seconds)
    flaw = call.flaw_of(exchange)
    if flaw is None:
        readings.exchanges.append(exchange)
        return
    readings.flaws.append(flaw)
    if exchange.flaw is not None:
        await asyncio.sleep(0.01)  # a dead connection must not spin
