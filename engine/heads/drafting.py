"""The drafting loop: the head goes on from its own tokens, and nothing waits for the device."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from engine.heads.attention import Context, Recorder, record
from engine.heads.cells import Norm, apply_norm
from engine.heads.stage import Stage, add_up, advance
from engine.heads.vocabulary import Vocabulary
from engine.heads.weights import at


class Drafting(Protocol):
    """A head at work, with folded weights."""

    def draft(
        self, hidden: Tensor, tokens: Tensor, n: int, context: Context | None
    ) -> tuple[Tensor, Tensor]:
        """Return target ids and confidence, (m, n) each, as `DraftHead.propose` says."""

    def record(self, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of rows, as `DraftHead.record` says."""


class DraftingLoop:
    """Drafts greedily.

    Args:
        stages: Of the first positions; later ones are like the last. The first takes target ids,
            the others draft ids.
        vocabulary: Of the head.
        dtype: Of the folded weights.
        input_norm: Of the target's state, where the head scales it.
        recorder: Of a head with a window.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        *,
        vocabulary: Vocabulary,
        dtype: torch.dtype,
        input_norm: Norm | None,
        recorder: Recorder | None,
    ) -> None:
        self._stages = tuple(stages)
        self._vocabulary = vocabulary
        self._dtype = dtype
        self._input_norm = input_norm
        self._recorder = recorder

    def draft(
        self, hidden: Tensor, tokens: Tensor, n: int, context: Context | None
    ) -> tuple[Tensor, Tensor]:
        """See `Drafting`."""
        state = self._enter(hidden)
        memory, drafted, confidences = None, [], []
        for position in range(n):
            stage = at(self._stages, position)
            state, memory = advance(stage, state, memory, tokens, context)
            probabilities = torch.softmax(stage.score(state), -1, dtype=torch.float32)
            confidence, tokens = probabilities.max(-1)
            drafted.append(tokens)
            confidences.append(confidence)
        return self._vocabulary.target_ids(torch.stack(drafted, 1)), torch.stack(confidences, 1)

    def record(self, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """See `Drafting`."""
        assert self._recorder is not None
        return record(self._recorder, add_up(self._stages[0], self._enter(hidden), tokens))

    def _enter(self, hidden: Tensor) -> Tensor:
        state = hidden.to(self._dtype)
        # A copy either way, as `Matrix` wants it.
        norm = self._input_norm
        return state.clone() if norm is None else apply_norm(state, norm)
