"""Rules that do not learn: no drafts, a fixed number of tokens, or a number by batch size."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from engine.simulation.arrays import Flags, Floats, Ints
from engine.simulation.curve import MOST_SEQUENCES, Curve
from engine.simulation.rule import Decision, Outcome, View
from engine.simulation.texts import HEAD

Source = Literal["suffix", "head", "both"]

_REFERENCE_RATE = 0.7
"""Acceptance that a schedule is made for beforehand."""
_STEPS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Schedule:
    """How many tokens are drafted at a batch size.

    Attributes:
        name: Unique in a run.
        source: Where they come from. `both`: the suffix draft if its tokens add up to at least as
            much survival as the head has tokens, else the head's (the rule of Arctic Inference).
        tokens: By the number of sequences in the step, those that prefill included;
            (MOST_SEQUENCES + 1,).
    """

    name: str
    source: Source
    tokens: Ints


def fixed(tokens: int, source: Source) -> Schedule:
    """The same at every batch size; `none` where that is 0."""
    name = f"{source}-{tokens}" if tokens else "none"
    return Schedule(name, source, np.full(MOST_SEQUENCES + 1, tokens))


def vllm_schedule(curve: Curve, source: Source) -> Schedule:
    """Return vLLM's `num_speculative_tokens_per_batch_size`, tuned beforehand for a curve.

    vLLM leaves the ranges to the operator. Here each takes what is best on this curve at its upper
    end if each token is accepted with `_REFERENCE_RATE`: well tuned for the machine, but not for
    the text. As in vLLM 0.32 the batch size counts all scheduled requests, those that
    prefill included (vllm issue 49548).
    """
    tokens = np.zeros(MOST_SEQUENCES + 1, dtype=np.int64)
    for before, last in pairwise(_STEPS):
        tokens[before + 1 : last + 1] = _best_tokens(curve, last, source)
    return Schedule("vllm-schedule", source, tokens)


class Scheduled:
    """Several schedules, a lane each.

    Args:
        lanes: The schedule of each lane.
    """

    def __init__(self, lanes: Sequence[Schedule]) -> None:
        self._tokens = np.array([schedule.tokens for schedule in lanes])
        self._suffix = _column([schedule.source != "head" for schedule in lanes])
        self._head = _column([schedule.source != "suffix" for schedule in lanes])
        self._lanes = np.arange(len(lanes))

    def decide(self, view: View) -> Decision:
        """Draft as many tokens as the schedule of each lane says."""
        sequences = (view.decoding | view.prefilling).sum(1)
        most = self._tokens[self._lanes, sequences][:, None]
        return draft(view, most, suffix=self._suffix, head=self._head)

    def observe(self, view: View, decision: Decision, outcome: Outcome) -> None:
        """Schedules learn nothing."""


def draft(view: View, most: Ints, *, suffix: Flags, head: Flags) -> Decision:
    """Draft up to so many tokens for each sequence, whatever they are worth.

    Args:
        view: The step.
        most: (lanes, 1).
        suffix: Whether the suffix source is asked; (lanes, 1).
        head: Whether the head runs where the suffix source is not asked, or not sure; (lanes, 1).
    """
    offers = view.offers
    offered = np.minimum(offers.suffix_tokens[view.positions], most)
    longest = offers.confidence.shape[1]
    sure = suffix & ~head
    if (suffix & head).any():
        sure = sure | (suffix & (_score(offers.suffix, view.positions, offered) >= longest))
    from_head = head & ~sure & (view.room > 0) & (most > 0)
    lengths = np.where(from_head, np.minimum(most, longest), np.where(sure, offered, 0))
    return Decision(
        lengths=np.minimum(lengths, view.room),
        from_head=from_head,
        head_sequences=from_head.sum(1),
    )


def _score(stated: Floats, positions: Ints, offered: Ints) -> Floats:
    """The stated survival of a draft's tokens, added up."""
    within = np.arange(stated.shape[1]) < offered[..., None]
    return np.asarray((stated[positions] * within).sum(-1))


def _best_tokens(curve: Curve, sequences: int, source: Source) -> int:
    most = HEAD if source == "head" else 16
    lengths = np.arange(most + 1)
    emitted = (1 - _REFERENCE_RATE ** (lengths + 1)) / (1 - _REFERENCE_RATE)
    once = (curve.verify[sequences] + curve.head[sequences] * (source == "head")) * (lengths > 0)
    return int(np.argmax(emitted / (curve.step[sequences, sequences * (1 + lengths)] + once)))


def _column(flags: Sequence[bool]) -> Flags:
    return np.array(flags)[:, None]
