"""What rows of recorded text may look at, for a head with a window (`engine.heads.attention`)."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from engine.heads import Context, DraftHead
from engine.training.shard import Shard


class Before(NamedTuple):
    """The rows that those of some runs may look at: `window` before each run, then its own.

    Attributes:
        hidden: Their states, [runs, window + run_tokens, hidden_size].
        tokens: The token drawn from each, int64, [runs, window + run_tokens].
        mask: Added to the score of each one's entry, 0 or -inf, float32, [runs, run_tokens, window
            + run_tokens]; the first one has none, and stands for nothing.
    """

    hidden: Tensor
    tokens: Tensor
    mask: Tensor

    def to(self, device: torch.device) -> "Before":
        """Return them on a device."""
        return Before(self.hidden.to(device), self.tokens.to(device), self.mask.to(device))


def look_back(shard: Shard, starts: Tensor, *, rows: int, window: int) -> Before:
    """Return what the rows of some runs of a shard may look at.

    Args:
        shard: Whose rows they are.
        starts: First row of each run, int64, [runs]; may lie outside of the shard.
        rows: Of a run.
        window: Entries that a row may look at: that of itself and of those before it, as far as
            they belong to its document, prompt or answer. The first row of one makes no entry.
    """
    reach = starts[:, None] + torch.arange(-window, rows)
    inside = reach.clamp(0, len(shard.tokens) - 1)
    asking, entries = reach[:, window:, None], reach[:, None]
    first = shard.begins[inside[:, window:]][..., None]
    seen = (entries > first) & (entries <= asking) & (entries > asking - window)
    seen[..., 0] = True
    mask = torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))
    return Before(shard.hidden[inside], shard.tokens[inside], mask)


def recall(head: DraftHead, before: Before) -> Context:
    """Return what a head with a window makes of the rows that it may look at; differentiable."""
    runs, rows = before.tokens.shape
    keys, values = (
        part.unflatten(0, (runs, rows)).transpose(1, 2)
        for part in head.entries(before.hidden.flatten(0, 1), before.tokens.flatten())
    )
    # An entry is the value of a row with the key of the one before. The first one is nothing.
    nothing = (0, 0, 1, 0)
    return Context(
        functional.pad(keys[:, :, :-1], nothing),
        functional.pad(values[:, :, 1:], nothing),
        before.mask.to(keys.dtype),
        functional.pad(before.tokens[:, 1:], (1, 0), value=-1),
    )
