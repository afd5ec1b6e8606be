"""The entries that the rows of a draft may attend to, in the tables of a head's memory."""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.heads.attention import Context
from engine.heads.transfer import upload


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
            slots, filled = upload(keys.device, self.slots, self.filled)
            return gather(self.tables, slots, filled, entries=keys.shape[1] - 2)
        most = max(self.filled, default=0)
        if not most:
            return None
        if len(self.slots) > 1:
            filled = None if min(self.filled) == most else torch.tensor(self.filled)
            return gather(self.tables, torch.tensor(self.slots), filled, entries=most)
        (slot,) = self.slots
        mine, shown = slice(slot, slot + 1), slice(1 + most)
        return Context(
            keys[mine, shown].transpose(1, 2),
            values[mine, shown].transpose(1, 2),
            None,
            tokens[mine, shown],
        )


def gather(tables: Tables, slots: Tensor, filled: Tensor | None, *, entries: int) -> Context:
    """Copy the entries of some slots, without waiting for the device.

    Args:
        tables: Where they are.
        slots: int64, (rows,).
        filled: Number of entries that each row may attend to, int64, (rows,); None for all.
        entries: Number of entries to copy.
    """
    keys, values, tokens = (part[:, : 1 + entries].index_select(0, slots) for part in tables)
    mask = None
    if filled is not None:
        unseen = torch.arange(1 + entries, device=keys.device) > filled[:, None]
        mask = torch.zeros(unseen.shape, dtype=keys.dtype, device=keys.device)
        mask = mask.masked_fill_(unseen, float("-inf"))[:, None]
    return Context(keys.transpose(1, 2), values.transpose(1, 2), mask, tokens)
