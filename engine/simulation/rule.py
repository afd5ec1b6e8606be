"""The interface of a rule: what it sees in a step, what it decides, and what it learns.

Rules decide for several lanes at once: runs with other seeds, or with other settings of a rule,
that are simulated together. All arrays are (lanes, sequences) unless they say
otherwise; a slot of the batch without a sequence counts as an empty one.
"""

from dataclasses import dataclass
from typing import Protocol

from engine.simulation.arrays import Flags, Floats, Ints
from engine.simulation.texts import Offers


@dataclass(frozen=True, slots=True)
class View:
    """A step to be decided on.

    Attributes:
        stage: Number of the stage of each lane; (lanes,). Only the oracle may use it.
        decoding: Sequences that get a token, and may have a draft.
        positions: Row of each in the arrays of `offers`; 0 for sequences that do not decode.
        room: Most draft tokens that can be of use; 0 for sequences that do not decode.
        requests: Serial number of the request of each sequence.
        prefilling: Sequences that compute some of their prompt.
        prompt_tokens: Prompt tokens that they compute; (lanes,).
        unread_sequences: How many of them the last step left unfinished; (lanes,). An engine knows
            no more of prompts when it drafts, since the step is scheduled later.
        unread_tokens: Prompt tokens of those that the step has room for; (lanes,).
        context: Tokens that the sequences of the step attend to, added up; (lanes,).
        waiting: Requests that wait for a slot; (lanes,).
        offers: What the drafters say.
        ahead: Whether the step is launched before the tokens of the last one are known; (lanes,).
            Then `positions` are those before the last step, and the head cannot run.
        skip: Tokens of the index's offer that the last step is expected to yield.
        now: `positions` as they are when the step runs; only what drafts on the device knows them.
    """

    stage: Ints
    decoding: Flags
    positions: Ints
    room: Ints
    requests: Ints
    prefilling: Flags
    prompt_tokens: Ints
    unread_sequences: Ints
    unread_tokens: Ints
    context: Ints
    waiting: Ints
    offers: Offers
    ahead: Flags
    skip: Ints
    now: Ints


@dataclass(frozen=True, slots=True)
class Decision:
    """What is drafted.

    Attributes:
        lengths: Tokens of each sequence's draft; at most its room, and what its source offers.
        from_head: Whether they are the head's.
        head_sequences: How many sequences the head runs for; (lanes,).
    """

    lengths: Ints
    from_head: Flags
    head_sequences: Ints


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a step, as an engine can measure it.

    Attributes:
        emitted: Tokens that each sequence got, its first one after the prompt included.
        head_right: How many of the head's first tokens were correct, as far as the emitted ones
            show; valid only for sequences that the head ran for.
        tokens: Computed in the step, prompts and drafts included; (lanes,).
        step_seconds: Measured, without the head; (lanes,).
        head_seconds: Measured; 0 where it did not run; (lanes,).
    """

    emitted: Ints
    head_right: Ints
    tokens: Ints
    step_seconds: Floats
    head_seconds: Floats


class Rule(Protocol):
    """Chooses drafts; one object for each run."""

    def decide(self, view: View) -> Decision:
        """Say what is drafted in a step."""

    def observe(self, view: View, decision: Decision, outcome: Outcome) -> None:
        """Learn from the result of a decision."""


class TimedRule(Rule, Protocol):
    """A rule whose own time is of interest: the one under test.

    Attributes:
        spent_ns: Its own time for each step of each lane.
        sequences: How many sequences it decided for, in the same order.
    """

    spent_ns: list[int]
    sequences: list[int]
