"""What the rows of a draft may look at, where a head's memory keeps it."""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.heads.attention import Context


class View(NamedTuple):
    """Entries of some requests, in the tables of all.

    Attributes:
        keys: Of all requests, (requests, places, heads, head size): at a request's first place
            nothing, zeros, then its entries.
        values: Of the same shape.
        places: The request of each row, in the tables.
        filled: Entries that each row may look at.
    """

    keys: Tensor
    values: Tensor
    places: list[int]
    filled: list[int]

    def context(self) -> Context | None:
        """Return it as the modules take it: runs of one row; None where no row sees anything."""
        if self.keys.device.type != "cpu":
            # Graphs want the same shape in every step: the window's, without the place aside.
            return self._gather(entries=self.keys.shape[1] - 2)
        most = max(self.filled, default=0)
        if not most:
            return None
        if len(self.places) > 1:
            return self._gather(entries=most)
        (place,) = self.places
        keys, values = (
            part[place : place + 1, : 1 + most].transpose(1, 2) for part in (self.keys, self.values)
        )
        return Context(keys, values, None)

    def _gather(self, *, entries: int) -> Context:
        device = self.keys.device
        at = torch.tensor(self.places, device=device)
        keys, values = (
            part[:, : 1 + entries].transpose(1, 2).index_select(0, at)
            for part in (self.keys, self.values)
        )
        if self.filled.count(entries) == len(self.filled) and device.type == "cpu":
            return Context(keys, values, None)
        filled = torch.tensor(self.filled, device=device)
        unseen = torch.arange(1 + entries, device=device) > filled[:, None]
        mask = torch.zeros(unseen.shape, dtype=keys.dtype, device=device)
        return Context(keys, values, mask.masked_fill_(unseen, float("-inf"))[:, None])
