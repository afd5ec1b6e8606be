"""Rounds of the same streams with and without a trace, and what the trace costs."""

import asyncio
import time
from collections.abc import Sequence

from bench.calls import chat_request
from bench.client import LoadConnection
from bench.rounds import Json, put_summary, ratios_of, rotated, summary_of
from loadtest.progress import say

_ANSWER_SECONDS = 120.0
_ANSWER_TOKENS = 256
_PROMPTS = 16
_PROMPT = "Write a list of forty facts about the number {number}."

Round = dict[bool, float]
"""Tokens per second, with and without a trace."""


class TraceError(Exception):
    """An answer failed, or has no trace, or one that nobody asked for."""


async def measure(port: int, model: str, *, clients: int, rounds: int) -> list[Round]:
    """Let clients stream without a pause; both kinds of requests in turn, the first one in turn.

    The first round is not counted: after it the suffix index knows the answers, so nearly all
    drafts are accepted and a second has as many tokens as it can.

    Raises:
        TraceError: An answer is not as it should be.
    """
    connections = [await LoadConnection.open(port) for _ in range(clients)]
    found = []
    for number in range(rounds + 1):
        tokens_per_second: Round = {}
        for traced in rotated((False, True), number):
            seconds = await _stream_all(connections, model, traced=traced)
            tokens_per_second[traced] = _PROMPTS * _ANSWER_TOKENS / seconds
        if number:
            found.append(tokens_per_second)
            plain, traced_too = (f"{tokens_per_second[traced]:.0f}" for traced in (False, True))
            say(
                f"{clients} clients, round {number}/{rounds}: {plain} tokens/s, {traced_too} traced"
            )
    for connection in connections:
        connection.close()
    return found


async def _stream_all(connections: Sequence[LoadConnection], model: str, *, traced: bool) -> float:
    """Stream an answer to each prompt; returns the seconds that all of them took."""
    prompts = list(range(_PROMPTS))

    async def stream(connection: LoadConnection) -> str | None:
        while prompts:
            request = _request(model, prompts.pop(), traced=traced)
            exchange = await connection.exchange(request, timeout_seconds=_ANSWER_SECONDS)
            flaw = exchange.flaw
            if flaw is None and (b'"trace":' in exchange.body) is not traced:
                flaw = f"asked for a trace: {traced}, and the answer is otherwise"
            if flaw is not None:
                return flaw
        return None

    began = time.perf_counter()
    flaws = await asyncio.gather(*map(stream, connections))
    seconds = time.perf_counter() - began
    if (flaw := next(filter(None, flaws), None)) is not None:
        raise TraceError(flaw)
    return seconds


def _request(model: str, number: int, *, traced: bool) -> bytes:
    return chat_request(
        {
            "model": model,
            "messages": [{"role": "user", "content": _PROMPT.format(number=number)}],
            "max_tokens": _ANSWER_TOKENS,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "speculation": {"trace": traced},
        }
    )


def report(rounds: Sequence[Round]) -> Json:
    """Return the medians, and the ratio of each round: with a trace over without."""
    found: Json = {"rounds": len(rounds)}
    off, on = ([one[traced] for one in rounds] for traced in (False, True))
    put_summary(found, "tokens_per_second", summary_of(off))
    put_summary(found, "tokens_per_second_traced", summary_of(on))
    put_summary(found, "ratio", summary_of(ratios_of(on, off)))
    return found
