"""The context of recorded text for a head with a window (`engine.heads.attention`)."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from engine.heads import Context, DraftHead
from engine.training.shard import Shard


class Before(NamedTuple):
    """The rows that some runs may attend to: `window` rows before each run, then its own.

    Attributes:
        hidden: Their states, [runs, window + run_tokens, hidden_size].
        tokens: The token sampled from each, int64, [runs, window + run_tokens].
        mask: Added to the score of each row's entry, 0 or -inf, float32, [runs, run_tokens, window
            + run_tokens]. The first row has no entry; its column is the empty entry.
    """

    hidden: Tensor
    tokens: Tensor
    mask: Tensor

    def to(self, device: torch.device) -> "Before":
        """Return a copy on a device."""
        return Before(self.hidden.to(device), self.tokens.to(device), self.mask.to(device))


def look_back(shard: Shard, starts: Tensor, *, rows: int, window: int) -> Before:
    """Return the rows that some runs of a shard may attend to.

    Args:
        shard: The shard.
        starts: First row of each run, int64, [runs]; may be outside of the shard.
        rows: Rows per run.
        window: Number of entries that a row may see: its own and those before it, within its
            document (prompt and answer). The first row of a document has no entry.
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
    """Compute the context of a head with a window from these rows; differentiable."""
    runs, rows = before.tokens.shape
    keys, values = (
        part.unflatten(0, (runs, rows)).transpose(1, 2)
        for part in head.entries(before.hidden.flatten(0, 1), before.tokens.flatten())
    )
    # An entry pairs the value of a row with the key of the row before. The first one is empty.
    nothing = (0, 0, 1, 0)
    return Context(
        functional.pad(keys[:, :, :-1], nothing),
        functional.pad(values[:, :, 1:], nothing),
        before.mask.to(keys.dtype),
        functional.pad(before.tokens[:, 1:], (1, 0), value=-1),
    )
