"""Rounds of the same streams with the canary off, at its default and asking everything again."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from bench.canary.front import CanaryError, Counts, wait_until_idle
from bench.canary.prompts import greedy_request
from bench.client import LoadConnection
from bench.rounds import Json, rotated
from loadtest.progress import say

OFF = "off"
SETTINGS: Mapping[str, Mapping[str, float]] = {
    OFF: {"share": 0.0},
    "default": {},
    "all": {"share": 1.0, "most_time": 1.0},
}
"""The canaries that are compared; the last one is the worst case."""

_TOKENS = 32
_REQUESTS = 12
_PAUSE_SECONDS = (0.1, 0.9)
"""A second asking begins after 0.25 s and takes as long as an answer, so requests abort many."""
_ANSWER_SECONDS = 60.0
_IDLE_SECONDS = 120.0
_SAMPLES = 2_000
_STATISTICS = {"p50": 0.5, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Times:
    """Of one answer, in milliseconds.

    Attributes:
        first_ms: From request to first byte of the body, with the first token.
        whole_ms: To the last byte.
    """

    first_ms: float
    whole_ms: float


Round = Mapping[str, Sequence[Times]]
"""The answers of each gateway to the same prompts."""


async def measure(
    ports: Mapping[str, int], worker_port: int, model: str, *, rounds: int, seed: int = 1
) -> list[Round]:
    """Let one client ask each gateway in turn, with pauses; the first one in turn.

    A turn ends when the worker is idle, so that no second asking reaches into the next one. The
    first round is not counted.

    Args:
        ports: Of the gateways by name.
        worker_port: Of the worker that all of them have.
        model: To ask for.
        rounds: How many are counted.
        seed: Of the pauses, which are the same for all gateways.

    Raises:
        CanaryError: A request failed.
    """
    rng = Random(seed)
    found: list[Round] = []
    for number in range(rounds + 1):
        pauses = [rng.uniform(*_PAUSE_SECONDS) for _ in range(_REQUESTS)]
        turns = {}
        for name in rotated(ports, number):
            turns[name] = await _turn(ports[name], model, number * _REQUESTS, pauses)
            await wait_until_idle(worker_port, within_seconds=_IDLE_SECONDS)
        if number:
            found.append(turns)
            medians = (f"{name} {np.median(_whole(turns[name])):.0f}" for name in ports)
            say(f"round {number}/{rounds}: ms of an answer: {', '.join(medians)}")
    return found


async def _turn(port: int, model: str, first: int, pauses: Sequence[float]) -> list[Times]:
    connection, times = await LoadConnection.open(port), []
    try:
        for number, pause in enumerate(pauses, first):
            await asyncio.sleep(pause)
            # Of one kind: with two, the median would lie in the gap between them.
            request = greedy_request(model, 2 * number, tokens=_TOKENS, stream=True)
            exchange = await connection.exchange(request, timeout_seconds=_ANSWER_SECONDS)
            if exchange.flaw is not None:
                raise CanaryError(exchange.flaw)
            first_ns, whole_ns = exchange.first_byte_ns, exchange.end_ns
            sent_ns = exchange.sent_ns
            times.append(Times((first_ns - sent_ns) / 1e6, (whole_ns - sent_ns) / 1e6))
    finally:
        connection.close()
    return times


def report(rounds: Sequence[Round], counts: Mapping[str, Counts]) -> Json:
    """Return percentiles over all answers, and their ratios to those without a canary.

    A ratio has a 95 % interval, by bootstrap over the rounds: whatever affects a round as a whole
    affects all gateways alike.
    """
    found: Json = {"rounds": len(rounds)}
    for figure, values in {"first_ms": _first, "whole_ms": _whole}.items():
        off = np.array([values(one[OFF]) for one in rounds])
        for name in rounds[0]:
            mine = np.array([values(one[name]) for one in rounds])
            for statistic, share in _STATISTICS.items():
                key = f"{name}_{figure}_{statistic}"
                found[key] = float(np.quantile(mine, share))
                if name != OFF:
                    ratio, interval = quantile_ratio(mine, off, share)
                    found[f"{key}_ratio"], found[f"{key}_ratio_interval"] = ratio, interval
    for name, count in counts.items():
        found[f"{name}_compared"] = dict(count.compared)
        found[f"{name}_skipped"] = dict(count.skipped)
    return found


def quantile_ratio(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], share: float
) -> tuple[float, tuple[float, float]]:
    """Return the ratio of two quantiles, and its 95 % interval.

    Args:
        ours: Shape (rounds, answers).
        theirs: The same rounds of the other side.
        share: Which quantile, 0 to 1.
    """
    rng = np.random.default_rng(1)
    ratios = []
    for _ in range(_SAMPLES):
        drawn = rng.integers(len(ours), size=len(ours))
        ratios.append(np.quantile(ours[drawn], share) / np.quantile(theirs[drawn], share))
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.quantile(ours, share) / np.quantile(theirs, share)), (float(low), float(high))


def _first(times: Sequence[Times]) -> list[float]:
    return [one.first_ms for one in times]


def _whole(times: Sequence[Times]) -> list[float]:
    return [one.whole_ms for one in times]
