"""Wrong tokens in a few of many requests to a scripted worker, until the canary has found some."""

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from bench.calls import MODEL, chat_request
from bench.canary.front import CanaryError, Counts, read_counts, wait_until_settled
from bench.client import LoadConnection
from bench.rounds import Json
from loadtest.progress import say
from loadtest.service import RunningGateway

_CHUNKS, _TOKENS_PER_CHUNK = 3, 4
_TOKENS = _CHUNKS * _TOKENS_PER_CHUNK
_SOURCE = "suffix"
"""Drafts all tokens of the scripted worker but the last of each chunk."""
_WATCHED = 40
"""Requests of a burst that are asked again, on average; 64 may wait."""
_ID = re.compile(r"bench-(\d+)-")
"""Of a request at the worker; the gateway adds something of its own."""

_SAID_BURSTS = 100
_ANSWER_SECONDS = 30.0
_SETTLE_SECONDS = 60.0
_LOG_SECONDS = 10.0
_QUIET_SECONDS = 0.6
"""Longer than the canary waits before it asks again, and than it takes to ask once."""


@dataclass(frozen=True, slots=True)
class Case:
    """How rare defects are, and how many requests are asked again.

    Attributes:
        share: Of the requests that the canary asks again.
        one_in: One request in so many has a wrong token.
    """

    share: float
    one_in: int

    @property
    def expected(self) -> float:
        """Requests until an alarm, on average: they are independent, so the count is geometric."""
        return self.one_in / self.share


@dataclass(frozen=True, slots=True)
class Found:
    """What the canary found.

    Attributes:
        requests: All of them.
        wrong: Place of the wrong token by number of the request.
        alarms: Lines `canary_differs` of the gateway's log.
        compared: Requests that were asked again.
        skipped: Requests that should have been.
    """

    requests: int
    wrong: Mapping[int, int]
    alarms: Sequence[Mapping[str, Any]]
    compared: int
    skipped: int


async def measure(gateway: RunningGateway, case: Case, *, alarms: int, seed: int = 1) -> Found:
    """Send requests until the canary has raised so many alarms, or twice as many are expected.

    Args:
        gateway: In front of the scripted worker; it logs errors only.
        case: Its canary's share, and how rare defects are.
        alarms: How many.
        seed: Chooses the requests with a defect, and their places.

    Raises:
        CanaryError: A request failed, or was not asked again.
        TimeoutError: Alarms that were counted are not in the log.
    """
    rng = Random(seed)
    wrong: dict[int, int] = {}
    sent, burst = 0, round(_WATCHED / case.share)
    connection = await LoadConnection.open(gateway.port)
    try:
        while sent < 2 * alarms * case.expected:
            for number in range(sent, sent + burst):
                place = rng.randrange(_TOKENS) if rng.random() * case.one_in < 1 else None
                if place is not None:
                    wrong[number] = place
                await _ask(connection, _request(number, place))
            sent += burst
            counts = await _settled(gateway.port, sent if case.share == 1.0 else None)
            found = counts.compared.get("differs", 0)
            if sent % (_SAID_BURSTS * burst) == 0 or found >= alarms:
                say(f"one in {case.one_in}, share {case.share}: {found} alarms, {sent} requests")
            if found >= alarms:
                break
    finally:
        connection.close()
    lines = await _alarms(gateway, found)
    compared, skipped = sum(counts.compared.values()), sum(counts.skipped.values())
    return Found(sent, wrong, lines, compared, skipped)


async def _ask(connection: LoadConnection, request: bytes) -> None:
    exchange = await connection.exchange(request, timeout_seconds=_ANSWER_SECONDS)
    if exchange.flaw is not None:
        raise CanaryError(exchange.flaw)


async def _settled(port: int, count: int | None) -> Counts:
    """Wait until so many requests were asked again; None: until no more of them are."""
    if count is not None:
        return await wait_until_settled(port, count, within_seconds=_SETTLE_SECONDS)
    before, counts = None, await read_counts(port)
    while before is None or counts.settled != before.settled:
        await asyncio.sleep(_QUIET_SECONDS)
        before, counts = counts, await read_counts(port)
    return counts


async def _alarms(gateway: RunningGateway, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(_LOG_SECONDS):
        while True:
            lines = [one for one in gateway.log_lines() if one.get("event") == "canary_differs"]
            if len(lines) >= count:
                return lines
            await asyncio.sleep(0.05)


def _request(number: int, wrong: int | None) -> bytes:
    script = {"chunks": _CHUNKS, "tokens_per_chunk": _TOKENS_PER_CHUNK}
    if wrong is not None:
        script["wrong_token"] = wrong
    return chat_request(
        {
            "model": MODEL,
            "messages": [{"role": "user", "content": f"Say hello number {number}."}],
            "temperature": 0,
            "fake": script,
        },
        request_id=f"bench-{number}",
    )


def report(case: Case, found: Found, *, alarms: int) -> Json:
    """Return how many requests it took until an alarm, and whether the alarms are right.

    The mean of so many geometric counts has a standard deviation of its expectation over the root
    of their number; the interval is 1.96 of them around it.

    Args:
        case: What was measured.
        found: What was found.
        alarms: The first so many count.
    """
    numbers = sorted(map(_number, found.alarms))[:alarms]
    away = 1.96 / math.sqrt(max(1, len(numbers)))
    return {
        "share": case.share,
        "one_in": case.one_in,
        "requests": found.requests,
        "defects": len(found.wrong),
        "asked_again": found.compared,
        "skipped": found.skipped,
        "alarms": len(found.alarms),
        "misreported": sum(not _is_right(line, found.wrong) for line in found.alarms),
        "requests_until_alarm": (numbers[-1] + 1) / len(numbers) if numbers else None,
        "expected": case.expected,
        "expected_interval": [case.expected * (1 - away), case.expected * (1 + away)],
    }


def _number(line: Mapping[str, Any]) -> int:
    """Return the number of the request in an alarm; -1 if it names none of ours."""
    named = _ID.match(str(line["request_id"]))
    return -1 if named is None else int(named[1])


def _is_right(line: Mapping[str, Any], wrong: Mapping[int, int]) -> bool:
    """Whether an alarm names a request with a defect, its place and who drafted there."""
    return bool(wrong.get(_number(line)) == line["place"] and line["source"] == _SOURCE)
