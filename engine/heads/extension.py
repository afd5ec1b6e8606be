"""Lets a head draft tokens outside its vocabulary: those in the window that it attends to.

A text repeats its rarer words, and those are what a short vocabulary leaves out. The target's
output layer covers all tokens, so scoring a few more needs no extra weights. See adr/0026.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.heads.cells import Linear


class Extension(NamedTuple):
    """Scores tokens outside of the head's vocabulary.

    Attributes:
        project: Projects a state before it is multiplied with `rows`; None for no projection.
        rows: The target's output layer, one row per token, projected if memory allows.
    """

    project: Linear | None
    rows: Tensor

    def score(self, state: Tensor, tokens: Tensor) -> Tensor:
        """Return the logits of some tokens for each row, (m, any); -inf for none.

        Args:
            state: State of the position, (m, inner).
            tokens: Target ids, int64, (m, any); -1 for none.
        """
        projected = state if self.project is None else self.project(state)
        rows = self.rows[tokens.clamp_min(0)].to(projected.dtype)
        logits = torch.bmm(rows, projected.unsqueeze(-1)).squeeze(-1)
        return logits.masked_fill(tokens < 0, float("-inf"))
