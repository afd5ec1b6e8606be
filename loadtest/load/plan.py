"""All requests of a run, drawn from the seed before it starts. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from loadtest.conversations import Conversation
from loadtest.load.arrivals import arrival_times
from loadtest.load.made_up import draw_whole
from loadtest.load.scenario import Range, Scenario, Traffic


class Prompts(Protocol):
    """Where conversations come from."""

    def draw(self, traffic: Traffic, random: Random) -> Conversation:
        """A conversation of this kind; the same for the same state of `random`."""


@dataclass(frozen=True, slots=True)
class PlannedTurn:
    """One request of a conversation.

    Attributes:
        output_tokens: The request's `max_tokens`.
        wait_seconds: From the end of the turn before; zero for the first.
        abort_seconds: The client leaves so long after the turn was due; None: it stays.
    """

    output_tokens: int
    wait_seconds: float
    abort_seconds: float | None


@dataclass(frozen=True, slots=True)
class Arrival:
    """The arrival of one client.

    Attributes:
        due_seconds: After the start of the run.
        stage: Number of the stage that it belongs to.
        turns: One for each turn of the conversation.
    """

    number: int
    due_seconds: float
    stage: int
    traffic: Traffic
    conversation: Conversation
    turns: Sequence[PlannedTurn]


def make_plan(scenario: Scenario, prompts: Prompts, *, seed: int) -> list[Arrival]:
    """Draw a run.

    Returns:
        Arrivals in order of time, the same for the same scenario, prompts and seed.
    """
    random = Random(seed)
    times = arrival_times(scenario.arrivals, random)
    weights = [traffic.weight for traffic in scenario.mix]
    drawn = random.choices(scenario.mix, weights, k=len(times))
    return [
        _arrival(number, due, traffic, prompts, random)
        for number, (due, traffic) in enumerate(zip(times, drawn, strict=True))
    ]


def fingerprint_of(plan: Sequence[Arrival]) -> str:
    """Twelve hex digits, equal for runs that send the same requests at the same times."""
    digest = hashlib.sha256()
    for arrival in plan:
        said = [list(turn.messages) for turn in arrival.conversation.turns]
        digest.update(repr((arrival.due_seconds, arrival.turns, said)).encode())
    return digest.hexdigest()[:12]


def _arrival(
    number: int, due: tuple[float, int], traffic: Traffic, prompts: Prompts, random: Random
) -> Arrival:
    conversation = prompts.draw(traffic, random)
    turns = [
        PlannedTurn(
            output_tokens=max(1, draw_whole(traffic.output_tokens, random)),
            wait_seconds=_draw(traffic.think_seconds, random) if index else 0.0,
            abort_seconds=_abort(traffic, random),
        )
        for index in range(len(conversation.turns))
    ]
    return Arrival(number, *due, traffic, conversation, turns)


def _draw(range_: Range, random: Random) -> float:
    return random.uniform(range_.low, range_.high)


def _abort(traffic: Traffic, random: Random) -> float | None:
    after = traffic.abort_after_seconds
    return None if after is None else _draw(after, random)
