"""The drafting loop: the head goes on from its own tokens, and nothing waits for the device."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.heads.cells import Norm, apply_norm
from engine.heads.stage import Stage, advance
from engine.heads.vocabulary import Vocabulary
from engine.heads.weights import at

Propose = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""From hidden (m, hidden_size), tokens (m,) and n to target ids and confidence, (m, n) each."""


class DraftingLoop:
    """Drafts greedily.

    Args:
        stages: Of the first positions; later ones are like the last. The first takes target ids,
            the others draft ids.
        vocabulary: Of the head.
        dtype: Of the folded weights.
        input_norm: Of the target's state, where the head scales it.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        *,
        vocabulary: Vocabulary,
        dtype: torch.dtype,
        input_norm: Norm | None,
    ) -> None:
        self._stages = tuple(stages)
        self._vocabulary = vocabulary
        self._dtype = dtype
        self._input_norm = input_norm

    def __call__(self, hidden: Tensor, tokens: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Return the draft's target ids and confidence, as `DraftHead.propose` says."""
        state = hidden.to(self._dtype)
        # A copy either way, as `Matrix` wants it.
        norm = self._input_norm
        state = state.clone() if norm is None else apply_norm(state, norm)
        memory, drafted, confidences = None, [], []
        for position in range(n):
            stage = at(self._stages, position)
            state, memory = advance(stage, state, memory, tokens)
            probabilities = torch.softmax(stage.score(state), -1, dtype=torch.float32)
            confidence, tokens = probabilities.max(-1)
            drafted.append(tokens)
            confidences.append(confidence)
        return self._vocabulary.target_ids(torch.stack(drafted, 1)), torch.stack(confidences, 1)
