"""The recorded prompts of each workload and round; none is used twice for a concurrency."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from bench.engine.plan import CREATIVE_TEMPERATURE
from bench.engine.records import KINDS, Ask, Pools
from bench.gate.plan import Plan
from loadtest.conversations import DataError

MIXED, CREATIVE = "mixed", "creative"
_PER_CLIENT = 2
_LEAST_CREATIVE = 2
_MOST_CHARACTERS = 4_000
"""Of a prompt: 64 requests then fit into the worker's space for keys and values."""

Rounds = Mapping[str, Sequence[Sequence[Ask]]]
"""By workload, for each round the requests that every setting gets in it."""


def deal(pools: Pools, plan: Plan, clients: int) -> Rounds:
    """Deal prompts for so many clients.

    `mixed` has equally many of each kind, greedy; two for each client where there are enough, so
    that all clients stay busy although answers end at different times. `creative` is hard to
    predict: chat at temperature 1. It ignores the end of the text, since settings sample different
    texts and answers should be equally long.

    Raises:
        DataError: There are too few.
    """
    short = {kind: _short(pools, kind) for kind in KINDS}
    left = {kind: iter(found) for kind, found in short.items()}
    most = plan.tokens_at(clients)
    fewest = min(len(found) for found in short.values()) // plan.rounds
    each = max(1, clients // len(KINDS), min(_PER_CLIENT * clients // len(KINDS), fewest))
    creative = max(clients, _LEAST_CREATIVE)
    rounds: dict[str, list[list[Ask]]] = {MIXED: [], CREATIVE: []}
    for _ in range(plan.rounds):
        mixed = [ask for kind in KINDS for ask in _take(left[kind], each, kind)]
        rounds[MIXED].append([replace(ask, most_tokens=most, prediction=None) for ask in mixed])
        rounds[CREATIVE].append(
            [
                replace(
                    ask,
                    most_tokens=most,
                    prediction=None,
                    temperature=CREATIVE_TEMPERATURE,
                    ignore_eos=True,
                )
                for ask in _take(left["chat"], creative, "chat")
            ]
        )
    return rounds


def _short(pools: Pools, kind: str) -> Sequence[Ask]:
    """The first requests of sessions that are short enough."""
    firsts = (session[0] for session in pools.get(kind, ()) if session)
    return [
        ask
        for ask in firsts
        if sum(len(message["content"]) for message in ask.messages) <= _MOST_CHARACTERS
    ]


def _take(left: Iterator[Ask], count: int, kind: str) -> list[Ask]:
    taken = list(islice(left, count))
    if len(taken) < count:
        raise DataError(f"too few short prompts of the kind {kind}")
    return taken
