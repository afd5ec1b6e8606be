"""The tokens that a head can draft: all of the target's, or the most frequent ones."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.errors import HeadInputError
from engine.heads.config import HeadConfig

IGNORED = -100
"""Stands for a token that the head cannot draft: what torch's cross-entropy passes over."""


class Vocabulary(nn.Module):
    """Maps between ids of the head and ids of the target.

    Attributes:
        ids: Target id of each draft id, int64, shape (draft_vocab_size,), rising; None where the
            head drafts all tokens and the ids are the same.
    """

    ids: Tensor | None

    def __init__(self, config: HeadConfig, ids: Tensor | Sequence[int] | None = None) -> None:
        """Check the ids against the configuration.

        Raises:
            HeadInputError: Their number is another, they do not rise, or the target lacks one.
        """
        super().__init__()
        self._vocab_size = config.vocab_size
        rising = draft_of = None
        if (ids is None) != (config.draft_vocab_size is None):
            raise HeadInputError("draft ids and draft_vocab_size: give both or none")
        if ids is not None:
            rising = torch.as_tensor(ids).to(torch.int64)
            _check_ids(rising, config)
            draft_of = torch.full((config.vocab_size,), IGNORED, device=rising.device)
            draft_of[rising] = torch.arange(rising.shape[0], device=rising.device)
        self.register_buffer("ids", rising)
        self.register_buffer("_draft_of", draft_of, persistent=False)

    def target_ids(self, drafted: Tensor, more: Tensor | None = None) -> Tensor:
        """Return the target's ids of draft ids, int64, of the same shape.

        Args:
            drafted: Draft ids; (rows,) if there are more.
            more: Target ids of those from `draft_vocab_size` on, int64, (rows, any).
        """
        if self.ids is None:
            return drafted
        if more is None:
            return self.ids[drafted]
        size = self.ids.shape[0]
        beyond = more.gather(1, (drafted - size).clamp_min(0)[:, None])[:, 0]
        return torch.where(drafted < size, self.ids[drafted.clamp_max(size - 1)], beyond)

    def draft_ids(self, tokens: Tensor) -> Tensor:
        """Return the head's ids of target ids, int64; `IGNORED` where it has none."""
        return tokens if self.ids is None else self._draft_of[tokens]

    def left_out(self, tokens: Tensor) -> Tensor:
        """Return what of each row's tokens the head has no id of, each token once.

        Args:
            tokens: Target ids, int64, (rows, any); -1 for none.

        Returns:
            Of the same shape, in the order of the ids; -1 everywhere else.
        """
        if self.ids is None:
            return torch.full_like(tokens, -1)
        rising = tokens.sort(-1).values
        is_known = (rising < 0) | (self._draft_of[rising.clamp_min(0)] != IGNORED)
        is_again = functional.pad(rising[..., 1:] == rising[..., :-1], (1, 0))
        return rising.masked_fill(is_known | is_again, -1)

    def rows_of(self, table: Tensor) -> Tensor:
        """Return the rows of the tokens that can be drafted, of a table with a row a token."""
        if self.ids is None:
            return table[: self._vocab_size]  # vLLM pads its tables
        return table[self.ids]


def _check_ids(ids: Tensor, config: HeadConfig) -> None:
    if ids.shape != (config.draft_vocab_size,):
        raise HeadInputError(
            f"draft ids: found shape {tuple(ids.shape)}, expected ({config.draft_vocab_size},)"
        )
    if not bool((ids[1:] > ids[:-1]).all()):
        raise HeadInputError("draft ids: must rise")
    if int(ids[0]) < 0 or int(ids[-1]) >= config.vocab_size:
        raise HeadInputError(
            f"draft ids: found {int(ids[0])} to {int(ids[-1])}, "
            f"expected 0 to {config.vocab_size - 1}"
        )
