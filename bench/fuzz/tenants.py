"""Fifty tenants that flood the gateway, beside one that sends one request after the other."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.client import LoadConnection
from bench.fuzz.requests import Wire

_ANSWER_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
"""A flooding client that was refused waits this long, whatever Retry-After says."""


@dataclass(slots=True)
class FloodFigures:
    """What happened.

    Attributes:
        quiet: Latencies of the polite tenant alone, in seconds.
        flooded: The same beside the flood.
        polite_failures: Requests of the polite tenant that were not answered.
        served: Requests of the flood that were answered.
        refused: Those that were not.
    """

    quiet: list[float] = field(default_factory=list)
    flooded: list[float] = field(default_factory=list)
    polite_failures: int = 0
    served: int = 0
    refused: int = 0


async def flood(
    port: int,
    *,
    polite_key: str,
    flooding_keys: Sequence[str],
    at_once: int,
    requests: int,
    answer_seconds: float,
) -> FloodFigures:
    """Measure the polite tenant alone, then beside the flood.

    Args:
        port: Where the gateway listens.
        polite_key: Key of the polite tenant.
        flooding_keys: One key for each tenant that floods.
        at_once: Concurrent requests of each of them.
        requests: How many the polite tenant sends, each time.
        answer_seconds: How long the worker takes for an answer.
    """
    figures = FloodFigures()

    def request_of(key: str) -> bytes:
        wire = Wire(key, "flood")
        return wire.post(wire.body(fake={"delay_headers_seconds": answer_seconds}))

    async def ask_politely(latencies: list[float]) -> None:
        connection = await LoadConnection.open(port)
        request = request_of(polite_key)
        for _ in range(requests):
            began = time.monotonic()
            exchange = await connection.exchange(request, timeout_seconds=_ANSWER_SECONDS)
            latencies.append(time.monotonic() - began)
            figures.polite_failures += exchange.flaw is not None
        connection.close()

    async def ask_again_and_again(request: bytes) -> None:
        connection = await LoadConnection.open(port)
        try:
            while True:
                exchange = await connection.exchange(request, timeout_seconds=_ANSWER_SECONDS)
                if exchange.flaw is None:
                    figures.served += 1
                else:
                    figures.refused += 1
                    connection.close()
                    await asyncio.sleep(_PAUSE_SECONDS)
                    connection = await LoadConnection.open(port)
        finally:
            connection.close()

    await ask_politely(figures.quiet)
    flooding = [
        asyncio.create_task(ask_again_and_again(request_of(key)))
        for key in flooding_keys
        for _ in range(at_once)
    ]
    try:
        await asyncio.sleep(answer_seconds + 1.0)  # slots and queue are full
        await ask_politely(figures.flooded)
    finally:
        for task in flooding:
            task.cancel()
        await asyncio.gather(*flooding, return_exceptions=True)
    return figures
