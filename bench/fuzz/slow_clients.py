"""Slowloris: thousands of connections that send a byte a second, and ordinary requests beside."""

import asyncio
import contextlib
import resource
import time
from collections import Counter
from dataclasses import dataclass, field

from bench.client import LoadConnection
from bench.fuzz.requests import Wire
from bench.fuzz.sockets import connected
from loadtest.processes import ChildProcess

_BYTE_SECONDS = 1.0
_ORDINARY_SECONDS = 0.1
_ORDINARY_LIMIT_SECONDS = 10.0
_RAMP_SECONDS = 0.002
"""Between two new connections."""
_OPEN_FILES = 8_192
_MIB = 2**20


@dataclass(slots=True)
class SlowFigures:
    """What happened.

    Attributes:
        heads: Status, `closed` or `open` of the connections that sent a head slowly.
        bodies: The same of those that sent a body slowly.
        longest_seconds: Longest time that one of them was kept.
        ordinary: Latencies of the ordinary requests that were answered, in seconds.
        failed: Ordinary requests that were not.
        grown_mib: Greatest resident memory of the gateway, less that before.
    """

    heads: Counter[str] = field(default_factory=Counter)
    bodies: Counter[str] = field(default_factory=Counter)
    longest_seconds: float = 0.0
    ordinary: list[float] = field(default_factory=list)
    failed: int = 0
    grown_mib: float = 0.0


def allow_open_files() -> None:
    """Raise the soft limit of open files, which the gateway inherits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


async def hold_slowly(
    port: int, process: ChildProcess | None, *, key: str, heads: int, bodies: int, seconds: float
) -> SlowFigures:
    """Hold `heads` and `bodies` connections open for `seconds` at most."""
    figures = SlowFigures()
    wire = Wire(key, "slow")
    head = wire.head(b"x-slow: " + b"a" * 1_000)
    posted = wire.post(wire.body())
    body_begins = posted.index(b"\r\n\r\n") + 4
    before = 0 if process is None else process.resident_bytes()
    until = time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        beside = group.create_task(_ask_beside(port, wire, until, figures))
        holding = []
        for number in range(heads + bodies):
            is_body = number % (heads + bodies) >= heads
            begun, rest = (posted[:body_begins], posted[body_begins:]) if is_body else (b"", head)
            seen = figures.bodies if is_body else figures.heads
            holding.append(group.create_task(_hold(port, begun, rest, until, seen, figures)))
            await asyncio.sleep(_RAMP_SECONDS)
        while any(not task.done() for task in holding):
            await asyncio.sleep(_BYTE_SECONDS)
            if process is not None:
                grown = (process.resident_bytes() - before) / _MIB
                figures.grown_mib = max(figures.grown_mib, grown)
        beside.cancel()
    return figures


async def _hold(
    port: int, begun: bytes, rest: bytes, until: float, seen: Counter[str], figures: SlowFigures
) -> None:
    async with connected(port) as connection:
        opened = time.monotonic()
        await connection.send(begun)
        for at in range(len(rest)):
            await connection.send(rest[at : at + 1])
            await connection.read_until(lambda replies: replies.whole > 0, seconds=_BYTE_SECONDS)
            if connection.is_closed or connection.replies.whole or time.monotonic() > until:
                break
        if connection.replies.replies:
            seen[str(connection.replies.replies[0].status)] += 1
        else:
            seen["closed" if connection.is_closed else "open"] += 1
        figures.longest_seconds = max(figures.longest_seconds, time.monotonic() - opened)


async def _ask_beside(port: int, wire: Wire, until: float, figures: SlowFigures) -> None:
    """Send ordinary requests, each on a new connection: those must be accepted, too."""
    request = wire.post(wire.body())
    while time.monotonic() < until:
        began = time.monotonic()
        figures.failed += 1  # until it is answered
        with contextlib.suppress(OSError):
            connection = await LoadConnection.open(port)
            exchange = await connection.exchange(request, timeout_seconds=_ORDINARY_LIMIT_SECONDS)
            connection.close()
            if exchange.flaw is None:
                figures.failed -= 1
                figures.ordinary.append(time.monotonic() - began)
        await asyncio.sleep(_ORDINARY_SECONDS)
