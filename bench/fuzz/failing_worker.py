"""The share of the traffic that a worker gets which answers 500 at once."""

import asyncio
import time
from typing import NamedTuple

from bench.client import LoadConnection
from bench.fuzz.evil_worker import EvilWorker
from bench.fuzz.requests import Wire

_GAP_SECONDS = 0.01
_ANSWER_SECONDS = 10.0
_WORKER_SECONDS = 0.05


class Share(NamedTuple):
    """What the failing worker got.

    Attributes:
        ratio: Its share of the requests that were sent after the first `settle_seconds`.
        failed: Requests of that time that the client saw fail.
        sent: Requests of that time.
    """

    ratio: float
    failed: int
    sent: int


async def measure_share(
    port: int, failing: EvilWorker, *, key: str, seconds: float, settle_seconds: float
) -> Share:
    """Send a request every 10 ms for `seconds`, whatever the answers are."""
    wire = Wire(key, "steady")
    request = wire.post(wire.body(fake={"delay_headers_seconds": _WORKER_SECONDS}))
    began = time.monotonic()
    asking: list[asyncio.Task[bool]] = []
    first, before = 0, 0
    settled = False
    while (passed := time.monotonic() - began) < seconds:
        if not settled and passed >= settle_seconds:
            settled, first, before = True, len(asking), failing.asked
        asking.append(asyncio.create_task(_is_answered(port, request)))
        await asyncio.sleep(_GAP_SECONDS)
    answered = (await asyncio.gather(*asking))[first:]
    got = failing.asked - before
    return Share(got / len(answered), answered.count(False), len(answered))


async def _is_answered(port: int, request: bytes) -> bool:
    connection = await LoadConnection.open(port)
    try:
        exchange = await connection.exchange(request, timeout_seconds=_ANSWER_SECONDS)
        return exchange.flaw is None
    finally:
        connection.close()
