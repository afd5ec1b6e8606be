"""The tokens that a head can draft: all of the target's, or the most frequent ones."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.errors import HeadInputError
from engine.heads.config import HeadConfig

IGNORED = -100
"""Marks a token that the head cannot draft; torch's cross-entropy ignores it."""


class Vocabulary(nn.Module):
    """Maps between ids of the head and ids of the target.

    Attributes:
        ids: Target id of each draft id, int64, (draft_vocab_size,), rising; None if the head drafts
            all tokens, so that the ids are the same.
    """

    ids: Tensor | None

    def __init__(self, config: HeadConfig, ids: Tensor | Sequence[int] | None = None) -> None:
        """Check the ids against the configuration.

        Raises:
            HeadInputError: Their number is wrong, they do not rise, or one is out of range.
        """
        super().__init__()
        self._vocab_size = config.vocab_size
        rising = draft_of = None
        if (ids is None) != (config.draft_vocab_size is None):
            raise HeadInputError("draft ids and draft_vocab_size require each other")
        if ids is not None:
            rising = torch.as_tensor(ids).to(torch.int64)
            _check_ids(rising, config)
            draft_of = torch.full((config.vocab_size,), IGNORED, device=rising.device)
            draft_of[rising] = torch.arange(rising.shape[0], device=rising.device)
        self.register_buffer("ids", rising)
        self.register_buffer("_draft_of", draft_of, persistent=False)

    def target_ids(self, drafted: Tensor, more: Tensor | None = None) -> Tensor:
        """Return the target ids of draft ids, int64, same shape.

        Args:
            drafted: Draft ids; shape (rows,) if `more` is given.
            more: Target ids that draft ids from `draft_vocab_size` on stand for, int64, (rows,
                any).
        """
        if self.ids is None:
            return drafted
        if more is None:
            return self.ids[drafted]
        size = self.ids.shape[0]
        beyond = more.gather(1, (drafted - size).clamp_min(0)[:, None])[:, 0]
        return torch.where(drafted < size, self.ids[drafted.clamp_max(size - 1)], beyond)

    def draft_ids(self, tokens: Tensor) -> Tensor:
        """Return the draft ids of target ids, int64; `IGNORED` if the head has none."""
        return tokens if self.ids is None else self._draft_of[tokens]

    def left_out(self, tokens: Tensor) -> Tensor:
        """Return those of each row's tokens that the head has no draft id for, without repeats.

        Args:
            tokens: Target ids, int64, (rows, any); -1 for none.

        Returns:
            Same shape, in the order of the ids; -1 elsewhere.
        """
        if self.ids is None:
            return torch.full_like(tokens, -1)
        rising = tokens.sort(-1).values
        is_known = (rising < 0) | (self._draft_of[rising.clamp_min(0)] != IGNORED)
        is_again = functional.pad(rising[..., 1:] == rising[..., :-1], (1, 0))
        return rising.masked_fill(is_known | is_again, -1)

    def rows_of(self, table: Tensor) -> Tensor:
        """Return the rows of the draftable tokens from a table with a row for each token."""
        if self.ids is None:
            return table[: self._vocab_size]  # vLLM pads its tables
        return table[self.ids]


def _check_ids(ids: Tensor, config: HeadConfig) -> None:
    if ids.shape != (config.draft_vocab_size,):
        raise HeadInputError(
            f"draft ids: found shape {tuple(ids.shape)}, expected ({config.draft_vocab_size},)"
        )
    if not bool((ids[1:] > ids[:-1]).all()):
        raise HeadInputError("draft ids: must be rising")
    if int(ids[0]) < 0 or int(ids[-1]) >= config.vocab_size:
        raise HeadInputError(
            f"draft ids: found {int(ids[0])} to {int(ids[-1])}, "
            f"expected 0 to {config.vocab_size - 1}"
        )
