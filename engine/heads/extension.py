"""Tokens that a head drafts beside its vocabulary: those of the rows that it looks at.

A text says its rarer words again, and it is these that a short vocabulary leaves out. The target's
output rows are at hand for all tokens, so scoring some more takes no weights. See adr/0026.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.heads.cells import Linear


class Extension(NamedTuple):
    """Scores tokens outside of the head's vocabulary.

    Attributes:
        project: From a state to what the rows are multiplied with; None for the state itself.
        rows: The target's output rows, projected where memory allows that, one for each token.
    """

    project: Linear | None
    rows: Tensor

    def score(self, state: Tensor, tokens: Tensor) -> Tensor:
        """Return the logits of some tokens for each row, (m, any); -inf for none.

        Args:
            state: Of the position, (m, inner).
            tokens: Target ids, int64, (m, any); -1 for none.
        """
        projected = state if self.project is None else self.project(state)
        rows = self.rows[tokens.clamp_min(0)].to(projected.dtype)
        logits = torch.bmm(rows, projected.unsqueeze(-1)).squeeze(-1)
        return logits.masked_fill(tokens < 0, float("-inf"))
