"""What a head with a window remembers of running requests: the entries of their last rows."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engine.errors import HeadInputError
from engine.heads.attention import Context
from engine.heads.head import DraftHead

_MOST_STEPS = 16
"""Steps whose states are kept before entries are made of them."""


class _Noted(NamedTuple):
    """Rows of a step that have no entries yet."""

    places: Sequence[int]
    hidden: Tensor
    at: Sequence[int]
    tokens: Sequence[int]


class HeadMemory:
    """A ring of entries for each request.

    Rows are only noted when a step brings them; keys and values are computed when somebody asks, or
    when many have come together. So steps that do not draft cost next to nothing.

    A ring has a place more than the window, where the newest key waits for the next row's value.

    Args:
        head: With a window; folded.
        requests: Most of them at once.
        device: Where the head runs.
    """

    def __init__(self, head: DraftHead, *, requests: int, device: torch.device) -> None:
        config = head.config
        self._head = head
        self._ring = ring = config.window + 1
        shape = (requests, config.attention_heads, ring, config.attention_head_size)
        # On CPUs torch multiplies small bfloat16 matrices four times slower (adr/0017).
        dtype = torch.float32 if device.type == "cpu" else head.weights.dtype
        self._keys = torch.zeros(shape, dtype=dtype, device=device)
        self._values = torch.zeros(shape, dtype=dtype, device=device)
        self._masks = _masks(ring).to(device, dtype)
        self._places: dict[str, int] = {}
        self._free = list(range(requests))
        self._rows = [0] * requests
        self._noted: list[_Noted] = []
        self._waiting = [0] * requests

    @property
    def requests(self) -> Collection[str]:
        """Those that something is remembered of."""
        return self._places.keys()

    def note(
        self,
        requests: Sequence[str],
        counts: Sequence[int],
        hidden: Tensor,
        at: Sequence[int],
        tokens: Sequence[int],
    ) -> None:
        """Take new rows of some requests; touches no tensor.

        Args:
            requests: Each once; unknown ones begin with these rows.
            counts: New rows of each.
            hidden: States of a step, (any, hidden_size); not changed by anybody afterwards.
            at: Where in `hidden` the new rows are, request by request.
            tokens: The token drawn from each new row.

        Raises:
            HeadInputError: There are more requests than there is room for.
        """
        for request in requests:
            if request not in self._places:
                if not self._free:
                    raise HeadInputError(f"found request {len(self._places) + 1}, no room for it")
                self._places[request] = place = self._free.pop()
                self._rows[place] = 0
        places = [self._places[request] for request in requests]
        counted = list(zip(places, counts, strict=True))
        # Within one writing no place of a ring may come twice.
        if len(self._noted) == _MOST_STEPS or any(
            self._waiting[place] + count > self._ring for place, count in counted
        ):
            self._write()
        owners = [place for place, count in counted for _ in range(count)]
        self._noted.append(_Noted(owners, hidden, at, tokens))
        for place, count in counted:
            self._waiting[place] += count

    def context(self, requests: Sequence[str]) -> Context:
        """Return what the last rows of these requests may look at; unknown ones see nothing."""
        self._write()
        rows = [self._rows[self._places[name]] if name in self._places else 0 for name in requests]
        masks = [n if n < self._ring else self._ring + n % self._ring for n in rows]
        device = self._keys.device
        # Whoever has no place is shown another's, and sees nothing of it.
        places = torch.tensor([self._places.get(name, 0) for name in requests], device=device)
        return Context(
            self._keys.index_select(0, places),
            self._values.index_select(0, places),
            self._masks.index_select(0, torch.tensor(masks, device=device)).unsqueeze(1),
        )

    def forget(self, requests: Collection[str]) -> None:
        """Free what requests hold that finished or lost their place; unknown ones are ignored."""
        places = [self._places.pop(name) for name in requests if name in self._places]
        if any(self._waiting[place] for place in places):
            self._write()
        self._free += places

    def clear(self) -> None:
        """Forget everything."""
        self._noted.clear()
        self._waiting = [0] * len(self._waiting)
        self.forget(list(self._places))

    def _write(self) -> None:
        """Make entries of the rows that are waiting."""
        if not self._noted:
            return
        noted, self._noted = self._noted, []
        self._waiting = [0] * len(self._waiting)
        ring = self._ring
        at: list[int] = []
        written: list[int] = []
        kept: list[int] = []
        owners = [place for rows in noted for place in rows.places]
        left: dict[int, int] = {}
        for place in owners:
            left[place] = left.get(place, 0) + 1
        for row, place in enumerate(owners):
            number = self._rows[place]
            self._rows[place] = number + 1
            left[place] -= 1
            if left[place] < ring:  # of more rows than a ring holds, the last ones
                kept.append(row)
                written.append(place)
                at.append(number % ring)
        hidden = torch.cat([rows.hidden[rows.at] for rows in noted])
        drawn = [token for rows in noted for token in rows.tokens]
        tokens = torch.tensor(drawn, device=hidden.device)
        if len(kept) < len(owners):
            hidden, tokens = hidden[kept], tokens[kept]
        keys, values = self._head.record(hidden, tokens)
        self._values[written, :, at] = values.to(self._values.dtype)
        self._keys[written, :, [(place + 1) % ring for place in at]] = keys.to(self._keys.dtype)


def _masks(ring: int) -> Tensor:
    """Return which places of a ring hold an entry, by the rows that it has taken.

    Entry e, at place e % ring, is whole when row e is there; the first row makes none.

    Returns:
        0 or -inf, (2 * ring, ring): of n < ring rows in row n, of more in row ring + n % ring.
    """
    places = torch.arange(ring)
    rows = torch.arange(ring)[:, None]
    filling = (places >= 1) & (places < rows)
    full = places != rows
    return torch.zeros(2 * ring, ring).masked_fill(~torch.cat([filling, full]), float("-inf"))
