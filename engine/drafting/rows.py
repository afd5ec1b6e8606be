"""What goes into a step's drafting, and what comes out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.drafting.control import Control
from engine.drafting.origin import Origin


@dataclass(frozen=True, slots=True)
class Beginning:
    """A request that is seen for the first time, or again after it was suspended.

    Attributes:
        tokens: Its prompt, and whatever it generated before this step; int32, shape (n,), n >= 1.
        control: What it asks for.
        left: Most tokens that it may get from this step on: what the model's length and its own
            `max_tokens` leave.
    """

    tokens: NDArray[np.int32]
    control: Control
    left: int


@dataclass(slots=True)
class StepDrafts:
    """Drafts by row; empty lists for rows that decode plainly.

    Attributes:
        tokens: Of each row.
        origins: Whose they are; None where there are none.
        context_tokens: In the caches of all running requests; None where nothing could be drafted.
    """

    tokens: list[list[int]]
    origins: list[Origin | None] = field(default_factory=list)
    context_tokens: int | None = None

    @classmethod
    def nothing(cls, rows: int) -> "StepDrafts":
        """A step that decodes plainly."""
        return cls([[] for _ in range(rows)], [None] * rows)


class HeadPass(Protocol):
    """One forward pass of a draft head over some rows of the step that has just been sampled."""

    def __call__(self, rows: Sequence[int]) -> Sequence[tuple[Sequence[int], Sequence[float]]]:
        """Return for each of these rows the head's tokens, and its own probability of each.

        Args:
            rows: Places in the step's rows, rising; each of them got tokens.
        """
