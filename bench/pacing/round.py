"""Plays patterns through the gateway in one mode and joins the time stamps of both ends."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.calls import MODEL, chat_request
from bench.client import Crowd, Exchange, capture_streams
from bench.pacing.dialect import StreamError, read_answer
from bench.pacing.figures import Played, played
from bench.pacing.patterns import Pattern
from bench.pacing.plan import BOUND_MS, Mode, Plan
from bench.pacing.targets import Stage, get_page

_LIMIT_SECONDS = 60.0
_ADDED = re.compile(r"^gateway_pacing_added_seconds_(sum|count)(?:\{.*\})? (\S+)", re.MULTILINE)
_PROMPT = [{"role": "user", "content": "Play."}]


@dataclass(frozen=True, slots=True)
class Playback:
    """Patterns that were played in one mode.

    Attributes:
        played: One for each pattern, in order; None where it failed.
        captures: The same as raw packets.
        flaws: Why those that failed did.
        metric_ms: What the gateway's own metric says that it added to a token, in the mean; None
            where it added nothing or does not say.
    """

    played: Sequence[Played | None]
    captures: Sequence[Exchange]
    flaws: Sequence[str]
    metric_ms: float | None

    @property
    def good(self) -> list[Played]:
        """Those that did not fail."""
        return [each for each in self.played if each is not None]


async def play(stage: Stage, patterns: Sequence[Pattern], mode: Mode, crowd: Crowd) -> Playback:
    """Play patterns through the gateway.

    Raises:
        MismatchError: A client assembled another text than the worker sent.
        aiohttp.ClientError: The worker does not report its stamps, or the gateway its metrics.
    """
    ids = [f"{number}-{mode}" for number in range(len(patterns))]
    calls = [_call(pattern, mode, ids[number]) for number, pattern in enumerate(patterns)]
    before = await _added(stage.port)
    captures = await asyncio.to_thread(capture_streams, stage.port, calls, crowd)
    after = await _added(stage.port)
    stamps: Mapping[str, Sequence[int]] = json.loads(await get_page(stage.worker_port, "/stamps"))
    flaws: list[str] = []
    found: list[Played | None] = []
    for number, (pattern, capture) in enumerate(zip(patterns, captures, strict=True)):
        try:
            found.append(_assembled(pattern, capture, stamps.get(ids[number], [])))
        except StreamError as error:
            found.append(None)
            flaws.append(f"{pattern.name}, {mode}: {error}")
    tokens = after[1] - before[1]
    metric_ms = (after[0] - before[0]) / tokens * 1e3 if tokens else None
    return Playback(found, captures, flaws, metric_ms)


async def play_round(
    stage: Stage, patterns: Sequence[Pattern], plan: Plan, *, modes: Sequence[Mode]
) -> dict[Mode, Playback]:
    """Play patterns in one mode after the other, each as often as the plan says.

    Raises:
        MismatchError: A client assembled another text than the worker sent.
        aiohttp.ClientError: The worker does not report its stamps.
    """
    # A spacing that is no multiple of a token's time, so that streams are out of step.
    crowd = Crowd(plan.at_once, spacing_seconds=0.037, limit_seconds=_LIMIT_SECONDS)
    repeated = list(patterns) * plan.repeats
    return {mode: await play(stage, repeated, mode, crowd) for mode in modes}


def _call(pattern: Pattern, mode: Mode, identity: str) -> bytes:
    return chat_request(
        {
            "model": MODEL,
            "messages": _PROMPT,
            "stream": True,
            "pacing": "off" if mode == "control" else mode,
            "max_delay_ms": BOUND_MS,
            "play": {"pattern": pattern.name, "id": identity},
        }
    )


def _assembled(pattern: Pattern, capture: Exchange, sent_ns: Sequence[int]) -> Played:
    if capture.flaw is not None:
        raise StreamError(capture.flaw)
    size = sum(len(data) for _, data in capture.packets)
    return played(pattern, sent_ns, read_answer(capture.packets), (capture.end_ns, size))


async def _added(port: int) -> tuple[float, float]:
    """Seconds that pacing has added so far, and to how many tokens."""
    text = await get_page(port, "/metrics")
    sums = {"sum": 0.0, "count": 0.0}
    for part, value in _ADDED.findall(text):
        sums[part] += float(value)
    return sums["sum"], sums["count"]
