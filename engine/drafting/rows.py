"""What goes into a step's drafting, and what comes out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.drafting.control import Control
from engine.drafting.origin import Origin


class Row(NamedTuple):
    """A request in a step.

    Attributes:
        request: Its id.
        sampled: Tokens that it got in this step; none while its prompt is still being read.
        room: Most tokens that a draft of it may have: what the model's length and the request's
            own `max_tokens` leave.
    """

    request: str
    sampled: list[int]
    room: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """A request that is seen for the first time, or again after it was suspended.

    Attributes:
        tokens: Its prompt, and whatever it generated before this step; int32, shape (n,), n >= 1.
        control: What it asks for.
    """

    tokens: NDArray[np.int32]
    control: Control


@dataclass(slots=True)
class StepDrafts:
    """Drafts by row; empty lists for rows that decode plainly."""

    tokens: list[list[int]]
    origins: list[Origin | None] = field(default_factory=list)

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
