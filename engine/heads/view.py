"""What the rows of a draft may look at, where a head's memory keeps it."""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.heads.attention import Context


class Tables(NamedTuple):
    """Entries of all requests.

    Attributes:
        keys: Shape (requests, places, heads, head size): at a request's first place nothing, zeros,
            then its entries.
        values: Of the same shape.
        tokens: The target's id of the token of each value's row, int64, (requests, places); -1 at
            a request's first place.
    """

    keys: Tensor
    values: Tensor
    tokens: Tensor


class View(NamedTuple):
    """Entries of some requests, in the tables of all.

    Attributes:
        tables: Of all.
        places: The request of each row, in the tables.
        filled: Entries that each row may look at.
    """

    tables: Tables
    places: list[int]
    filled: list[int]

    def context(self) -> Context | None:
        """Return it as the modules take it: runs of one row; None where no row sees anything."""
        keys, values, tokens = self.tables
        if keys.device.type != "cpu":
            # Graphs want the same shape in every step: the window's, without the place aside.
            return self._gather(entries=keys.shape[1] - 2)
        most = max(self.filled, default=0)
        if not most:
            return None
        if len(self.places) > 1:
            return self._gather(entries=most)
        (place,) = self.places
        mine, shown = slice(place, place + 1), slice(1 + most)
        return Context(
            keys[mine, shown].transpose(1, 2),
            values[mine, shown].transpose(1, 2),
            None,
            tokens[mine, shown],
        )

    def _gather(self, *, entries: int) -> Context:
        device = self.tables.keys.device
        at = torch.tensor(self.places, device=device)
        keys, values, tokens = (part[:, : 1 + entries].index_select(0, at) for part in self.tables)
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)
        if self.filled.count(entries) == len(self.filled) and device.type == "cpu":
            return Context(keys, values, None, tokens)
        filled = torch.tensor(self.filled, device=device)
        unseen = torch.arange(1 + entries, device=device) > filled[:, None]
        mask = torch.zeros(unseen.shape, dtype=keys.dtype, device=device)
        return Context(keys, values, mask.masked_fill_(unseen, float("-inf"))[:, None], tokens)
