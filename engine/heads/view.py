"""The entries that the rows of a draft may attend to, in the tables of a head's memory."""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.heads.attention import Context


class Tables(NamedTuple):
    """Entries of all requests; a request has a slot in each table.

    Attributes:
        keys: Shape (requests, slot elements, heads, head size). The first element of a slot is
            empty (zeros); its entries follow.
        values: Same shape.
        tokens: Target ids of the values' tokens, int64, (requests, slot elements); -1 for the
            first.
    """

    keys: Tensor
    values: Tensor
    tokens: Tensor


class View(NamedTuple):
    """Entries of some requests, in the tables of all.

    Attributes:
        tables: The tables.
        slots: Slot of each row's request.
        filled: Number of entries that each row may attend to.
    """

    tables: Tables
    slots: list[int]
    filled: list[int]

    def context(self) -> Context | None:
        """Return the context for torch: runs of one row; None if no row sees any entry."""
        keys, values, tokens = self.tables
        if keys.device.type != "cpu":
            # Graphs need the same shape in every step: the whole window.
            return self._gather(entries=keys.shape[1] - 2)
        most = max(self.filled, default=0)
        if not most:
            return None
        if len(self.slots) > 1:
            return self._gather(entries=most)
        (slot,) = self.slots
        mine, shown = slice(slot, slot + 1), slice(1 + most)
        return Context(
            keys[mine, shown].transpose(1, 2),
            values[mine, shown].transpose(1, 2),
            None,
            tokens[mine, shown],
        )

    def _gather(self, *, entries: int) -> Context:
        device = self.tables.keys.device
        at = torch.tensor(self.slots, device=device)
        keys, values, tokens = (part[:, : 1 + entries].index_select(0, at) for part in self.tables)
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)
        if self.filled.count(entries) == len(self.filled) and device.type == "cpu":
            return Context(keys, values, None, tokens)
        filled = torch.tensor(self.filled, device=device)
        unseen = torch.arange(1 + entries, device=device) > filled[:, None]
        mask = torch.zeros(unseen.shape, dtype=keys.dtype, device=device)
        return Context(keys, values, mask.masked_fill_(unseen, float("-inf"))[:, None], tokens)
