"""Inputs and outputs of a drafting step, and what is counted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.drafting.control import Control
from engine.drafting.origin import Origin

ON_DEVICE = -1
"""In the place of a draft token that is made on the device and unknown to the CPU."""

DECISIONS = ("drafted", "priced_out", "unknown", "limited", "paused", "failed")
"""All decisions about a step; `Counters.decisions` defines them."""


@dataclass(slots=True)
class Counters:
    """Sums since the start, as plain numbers; engine/worker/metrics.py publishes them.

    Attributes:
        decisions: Steps by decision. `drafted`: drafts were verified; `unknown`: no source had a
            proposal; `priced_out`: no proposal was worth the price; `limited`: more sequences than
            `max_batch_size`; `paused`: after repeated errors; `failed`: an error in this step.
        fallbacks: Steps, requests or passes of the head that had no drafts because of an error, by
            its class.
    """

    decisions: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Beginning:
    """A request that is new, or resumes after it was preempted.

    Attributes:
        tokens: Its prompt and whatever it generated before this step; int32, shape (n,), n >= 1.
        control: What it asks for.
        left: Most tokens that it may get from this step on, by the model's context length and its
            own `max_tokens`.
    """

    tokens: NDArray[np.int32]
    control: Control
    left: int


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step that was launched before the tokens of the one before it were known.

    Attributes:
        verified: Draft tokens that it verifies, for each sequence of the step before it; -1 if it
            does not have the sequence.
        on_device: Code of the source that drafts in it, on the device, and how many tokens it
            makes for each sequence; None if there is none.
    """

    verified: Sequence[int]
    on_device: tuple[int, int] | None = None


@dataclass(slots=True)
class StepDrafts:
    """Drafts by sequence; an empty list decodes without a draft.

    Attributes:
        tokens: Draft tokens of each sequence.
        origins: Sources of each draft; None for an empty one.
        context_tokens: Tokens in the KV caches of all running requests; None after an error.
    """

    tokens: list[list[int]]
    origins: list[Origin | None] = field(default_factory=list)
    context_tokens: int | None = None

    @classmethod
    def nothing(cls, sequences: int) -> "StepDrafts":
        """Return empty drafts."""
        return cls([[] for _ in range(sequences)], [None] * sequences)


class HeadPass(Protocol):
    """One forward pass of a draft head over some sequences of the step that was just sampled."""

    def __call__(
        self, sequences: Sequence[int], /
    ) -> Sequence[tuple[Sequence[int], Sequence[float]]]:
        """Return the head's tokens for each of these sequences, and its probability of each token.

        Args:
            sequences: Positions in the step, ascending; each of them got tokens.
        """
