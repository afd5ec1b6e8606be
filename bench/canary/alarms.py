"""Many greedy requests to a real worker, all asked again: none may be called a defect."""

import asyncio
import json
from dataclasses import dataclass

from bench.canary.front import CanaryError, Counts, read_counts, wait_until_settled
from bench.canary.prompts import greedy_request
from bench.client import LoadConnection
from bench.rounds import Json
from loadtest.progress import say

SETTINGS = {"share": 1.0, "most_time": 1.0, "shut_after": 1}
"""Of a canary that asks everything again, and shuts a source at its first defect."""

_TOKENS = 8
_BURST = 48
"""Requests between two pauses; 64 may wait for their second asking."""
_CLIENTS = 8
_ANSWER_SECONDS = 120.0
_SETTLE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Alarms:
    """What became of the requests to one gateway.

    Attributes:
        requests: Those that were answered.
        accepted: Tokens of their answers that had been drafted.
        counts: Of the canary.
    """

    requests: int
    accepted: int
    counts: Counts


async def measure(port: int, model: str, *, requests: int) -> Alarms:
    """Send bursts of greedy requests, each when all of the last one were asked again.

    Args:
        port: Of a gateway with `SETTINGS` that has answered nothing yet.
        model: To ask for.
        requests: How many.

    Raises:
        CanaryError: A request failed, or was not asked again.
    """
    accepted = done = 0
    counts = await read_counts(port)
    while done < requests:
        size = min(_BURST, requests - done)
        accepted += await _send(port, model, list(range(done, done + size)))
        done += size
        counts = await wait_until_settled(port, done, within_seconds=_SETTLE_SECONDS)
        say(f"{done}/{requests} asked again: {dict(counts.compared)}, {accepted} accepted")
    return Alarms(requests, accepted, counts)


async def _send(port: int, model: str, left: list[int]) -> int:
    """Ask for all of them; returns how many tokens of the answers had been drafted."""

    async def client() -> int:
        connection, accepted = await LoadConnection.open(port), 0
        try:
            while left:
                request = greedy_request(model, left.pop(), tokens=_TOKENS, stream=False)
                exchange = await connection.exchange(request, timeout_seconds=_ANSWER_SECONDS)
                if exchange.flaw is not None:
                    raise CanaryError(exchange.flaw)
                figures = json.loads(exchange.body)["metrics"]["speculative_decoding"]
                accepted += (figures or {}).get("num_accepted_draft_tokens", 0)
        finally:
            connection.close()
        return accepted

    return sum(await asyncio.gather(*(client() for _ in range(min(_CLIENTS, len(left))))))


def report(alarms: Alarms) -> Json:
    """Return what there is to say; a correct worker has no `differs`, and no source shut."""
    compared = alarms.counts.compared
    return {
        "requests": alarms.requests,
        "tokens": alarms.requests * _TOKENS,
        "accepted_tokens": alarms.accepted,
        "compared": {name: compared.get(name, 0) for name in ("same", "near_tie", "differs")},
        "skipped": {name: count for name, count in alarms.counts.skipped.items() if count},
        "shut": alarms.counts.shut,
    }
