"""Rounds of the same streams with and without a trace, and what the trace costs."""

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import psutil

from bench.calls import chat_request
from bench.client import LoadConnection
from bench.rounds import Json, put_summary, ratios_of, rotated, summary_of
from loadtest.progress import say

_ANSWER_SECONDS = 120.0
_ANSWER_TOKENS = 256
_LEAST_PROMPTS = 4
_SAID_ROUNDS = 4
_PROMPT = "Write a list of forty facts about the number {number}."


@dataclass(frozen=True, slots=True)
class Figures:
    """Of the streams of one kind in a round.

    Attributes:
        serving_ms: CPU time of the gateway and vLLM's API server for 1,000 tokens.
        engine_ms: The same of vLLM's engine.
    """

    tokens_per_second: float
    serving_ms: float
    engine_ms: float


Round = dict[bool, Figures]
"""With a trace, and without."""


class TraceError(Exception):
    """An answer failed, or has no trace, or one that nobody asked for."""


async def measure(
    port: int,
    model: str,
    *,
    serving: Sequence[psutil.Process],
    engine: psutil.Process,
    clients: int,
    rounds: int,
) -> list[Round]:
    """Let clients stream without a pause; both kinds of requests in turn, the first one in turn.

    The first round is not counted: after it the suffix index knows the answers, so nearly all
    drafts are accepted and a second has as many tokens as it can. Rounds are short, so that what
    else the machine does affects both kinds alike.

    Raises:
        TraceError: An answer is not as it should be.
    """
    connections = [await LoadConnection.open(port) for _ in range(clients)]
    prompts = max(_LEAST_PROMPTS, clients)
    tokens = prompts * _ANSWER_TOKENS
    found = []
    for number in range(rounds + 1):
        figures: Round = {}
        for traced in rotated((False, True), number):
            before = _cpu_seconds(serving), _cpu_seconds([engine])
            seconds = await _stream_all(connections, model, prompts, traced=traced)
            after = _cpu_seconds(serving), _cpu_seconds([engine])
            in_ms = (1e6 * (end - begin) / tokens for begin, end in zip(before, after, strict=True))
            figures[traced] = Figures(tokens / seconds, *in_ms)
        if number:
            found.append(figures)
        if number and number % _SAID_ROUNDS == 0:
            plain, traced_too = (f"{figures[one].tokens_per_second:.0f}" for one in (False, True))
            say(f"{clients} clients, {number}/{rounds}: {plain} tokens/s, traced {traced_too}")
    for connection in connections:
        connection.close()
    return found


def _cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """CPU time of all threads so far; psutil's has the kernel's ticks of 10 ms."""
    threads = (Path(f"/proc/{one.pid}/task").glob("*/schedstat") for one in processes)
    files = chain.from_iterable(threads)
    return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files) / 1e9


async def _stream_all(
    connections: Sequence[LoadConnection], model: str, prompts: int, *, traced: bool
) -> float:
    """Stream an answer to each prompt; returns the seconds that all of them took."""
    left = list(range(prompts))

    async def stream(connection: LoadConnection) -> str | None:
        while left:
            request = _request(model, left.pop(), traced=traced)
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
    """Return medians over the rounds, and those of the ratios: with a trace over without.

    A ratio has the interval in which the true median is with a probability of 95 %.
    """
    found: Json = {"rounds": len(rounds)}
    off, on = ([asdict(one[traced]) for one in rounds] for traced in (False, True))
    for name in off[0]:
        plain, traced = ([one[name] for one in some] for some in (off, on))
        put_summary(found, name, summary_of(plain))
        put_summary(found, f"{name}_traced", summary_of(traced))
        ratios = ratios_of(traced, plain)
        put_summary(found, f"{name}_ratio", summary_of(ratios))
        found[f"{name}_ratio_interval"] = median_interval(ratios)
    return found


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the values between which the median of their distribution is, in 95 of 100 cases.

    The number of values below the median is binomial; its normal approximation gives the ranks.
    """
    ordered, count = sorted(values), len(values)
    away = 0.98 * math.sqrt(count)  # 1.96 standard deviations
    low = max(0, math.floor(count / 2 - away))
    return ordered[low], ordered[count - 1 - low]
