"""What a source is: something that drafts on the CPU from token ids alone."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.drafting.control import Control
from engine.suffix import Index


class Proposal(Protocol):
    """A draft as its source proposes it; each attribute is read once."""

    @property
    def tokens(self) -> list[int]:
        """Token ids."""

    @property
    def survival(self) -> list[float]:
        """For each, the probability that it and all before it are accepted; never rising."""

    @property
    def predicted(self) -> int:
        """How many of the first tokens follow the request's prediction."""


class Source(Protocol):
    """Drafts in microseconds; `SuffixSource` is one."""

    @property
    def core(self) -> Index | None:
        """The compiled index behind it: a step asks that itself, for all rows at once.

        None where there is none: then `advance` and `go_on` are called for each row.
        """

    def begin(self, request: str, control: Control, tokens: NDArray[np.int32]) -> None:
        """Take a request in; `tokens` is all it has so far."""

    def advance(self, request: str, tokens: Sequence[int], most: int, floor: float) -> Proposal:
        """Take in what was generated; then draft up to `most` tokens, 0 for none.

        None of them has a survival below `floor`.
        """

    def go_on(
        self, request: str, tokens: Sequence[int], survival: float, most: int, *, floor: float
    ) -> Proposal:
        """Draft up to `most` tokens behind `tokens`, which are all accepted with `survival`."""

    def end(self, request: str, *, keep: bool) -> None:
        """Let a request go; with `keep` what it wrote stays for its tenant."""
