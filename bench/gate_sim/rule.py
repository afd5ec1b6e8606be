"""What a rule sees in a step, what it answers, and what it learns of what came of that.

Rules decide for several lanes at once: runs with other seeds, or with other settings of a rule,
that go on side by side. All arrays are (lanes, sequences) unless they say
otherwise; a slot of the batch without a sequence counts as an empty one.
"""

from dataclasses import dataclass
from typing import Protocol

from bench.gate_sim.arrays import Flags, Floats, Ints
from bench.gate_sim.texts import Offers


@dataclass(frozen=True, slots=True)
class View:
    """A step to be decided on.

    Attributes:
        stage: Where in its course a lane is; (lanes,). Only the oracle knows what that means.
        decoding: Rows that get a token, and may have a draft.
        positions: Where they are, as a row of the arrays of `offers`; 0 for other sequences.
        room: Most tokens of a draft that can be of use; 0 for other sequences.
        requests: Serial number of the request of each sequence.
        prefilling: Rows that compute some of their prompt.
        prompt_tokens: What they compute; (lanes,).
        unread_rows: Of them those that the last step left unread: all that an engine knows of
            prompts when it drafts, before the step is scheduled; (lanes,).
        unread_tokens: What of those the step has room for; (lanes,).
        context: Tokens that the sequences of the step attend to, added up; (lanes,).
        waiting: Requests that wait for a sequence; (lanes,).
        offers: What the drafters say.
    """

    stage: Ints
    decoding: Flags
    positions: Ints
    room: Ints
    requests: Ints
    prefilling: Flags
    prompt_tokens: Ints
    unread_rows: Ints
    unread_tokens: Ints
    context: Ints
    waiting: Ints
    offers: Offers


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
    """What came of it, as an engine can measure it.

    Attributes:
        emitted: Tokens that each sequence got, its first one after the prompt included.
        head_right: How many of the head's first tokens came true, as far as what was emitted tells;
            of use only for sequences that the head ran for.
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
    """Chooses drafts. Made anew for each run."""

    def decide(self, view: View) -> Decision:
        """Say what is drafted in a step."""

    def observe(self, view: View, decision: Decision, outcome: Outcome) -> None:
        """Learn what came of a decision."""


class TimedRule(Rule, Protocol):
    """A rule whose own time is of interest: the one under test.

    Attributes:
        spent_ns: What it took for each step of each lane.
        sequences: How many sequences it decided for, in the same order.
    """

    spent_ns: list[int]
    sequences: list[int]
