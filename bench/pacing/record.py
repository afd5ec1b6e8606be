"""Records patterns from a real service: the chunks that a client receives with pacing off."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from bench.calls import chat_request
from bench.client import Crowd, Exchange, capture_streams
from bench.pacing.dialect import Arrival, StreamError, read_answer
from bench.pacing.patterns import ANSWER, Chunk, Pattern
from bench.pacing.plan import SEED, TEMPERATURE, Plan
from bench.pacing.prompts import KINDS
from loadtest.conversations import Messages
from loadtest.progress import say

_LIMIT_SECONDS = 300.0


class RecordError(Exception):
    """The service did not answer as it should; the message says what it said."""


@dataclass(frozen=True, slots=True)
class _Ask:
    name: str
    kind: str
    messages: Messages
    prompt: int | None = None
    run: int | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """Whom to ask.

    Attributes:
        port: On 127.0.0.1.
        model: The name that it serves.
    """

    port: int
    model: str


async def record_patterns(
    service: Service, prompts: Mapping[str, Sequence[Messages]], plan: Plan
) -> list[Pattern]:
    """Record the patterns of every kind, then the answers for the attacker.

    Raises:
        RecordError: A request failed, or there are too few prompts.
    """
    found: list[Pattern] = []
    left = {kind: list(prompts[kind]) for kind in KINDS}
    secrets = _take(left["chat"], plan.prompts)
    for clients, count in plan.recorded.items():
        for kind in KINDS:
            taken = _take(left[kind], count)
            name = f"{kind}-{clients}"
            asks = [_Ask(f"{name}-{n}", name, messages) for n, messages in enumerate(taken)]
            say(f"recording {len(asks)} answers: {kind}, {clients} at once")
            found += await _record(service, asks, clients=clients, tokens=plan.recorded_tokens)
    asks = [
        _Ask(f"{ANSWER}-{number}-{run}", ANSWER, messages, number, run)
        for number, messages in enumerate(secrets)
        for run in range(plan.runs)
    ]
    # Mixed, so that what the machine does at some time is no sign of a prompt.
    Random(SEED).shuffle(asks)
    say(f"recording {len(asks)} answers to {len(secrets)} prompts, {plan.answer_clients} at once")
    return found + await _record(
        service, asks, clients=plan.answer_clients, tokens=plan.answer_tokens
    )


def _take(prompts: list[Messages], count: int) -> list[Messages]:
    if len(prompts) < count:
        raise RecordError(f"{count} prompts are needed and {len(prompts)} are there")
    taken, prompts[:] = prompts[:count], prompts[count:]
    return taken


async def _record(
    service: Service, asks: Sequence[_Ask], *, clients: int, tokens: int
) -> list[Pattern]:
    calls = [
        chat_request(
            {
                "model": service.model,
                "messages": ask.messages,
                "max_tokens": tokens,
                "temperature": TEMPERATURE,
                "stream": True,
                "stream_options": {"include_usage": True, "continuous_usage_stats": True},
                "pacing": "off",
            }
        )
        for ask in asks
    ]
    crowd = Crowd(at_once=clients, spacing_seconds=0.0, limit_seconds=_LIMIT_SECONDS)
    captures = await asyncio.to_thread(capture_streams, service.port, calls, crowd)
    return [_pattern(ask, capture) for ask, capture in zip(asks, captures, strict=True)]


def _pattern(ask: _Ask, capture: Exchange) -> Pattern:
    if capture.flaw is not None:
        raise RecordError(f"{ask.name}: {capture.flaw}")
    try:
        arrivals = read_answer(capture.packets)
    except StreamError as error:
        raise RecordError(f"{ask.name}: {error}") from error
    chunks = chunks_of(arrivals, capture.sent_ns)
    if not chunks:
        raise RecordError(f"{ask.name}: an empty answer")
    return Pattern(ask.name, ask.kind, chunks, ask.prompt, ask.run)


def chunks_of(arrivals: Sequence[Arrival], asked_ns: int) -> list[Chunk]:
    """What the worker sent when, by what a client got without pacing.

    Args:
        arrivals: With running counts of tokens.
        asked_ns: Clock when the request left.
    """
    chunks: list[Chunk] = []
    counted = 0
    for arrival in arrivals:
        # A chunk whose count did not move is text that the worker had held back.
        count = arrival.tokens if arrival.tokens is not None else counted + 1
        chunks.append(Chunk(arrival.at_ns - asked_ns, arrival.text, max(1, count - counted)))
        counted = max(counted, count)
    return chunks
