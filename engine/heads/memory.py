"""What a head with a window remembers of running requests: the entries of their last rows."""

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from engine.errors import HeadInputError
from engine.heads.attention import Context
from engine.heads.head import DraftHead

_MOST_STEPS = 16
"""Steps whose states are kept before entries are made of them."""


class _Noted(NamedTuple):
    """A step of which no entries have been made; see `HeadMemory.note`."""

    requests: Sequence[str]
    sampled: Sequence[Sequence[int]]
    hidden: Tensor
    first: Sequence[int] | None


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

    @property
    def requests(self) -> Collection[str]:
        """Those that something is remembered of."""
        return self._places.keys()

    def note(
        self,
        requests: Sequence[str],
        sampled: Sequence[Sequence[int]],
        hidden: Tensor,
        first: Sequence[int] | None = None,
    ) -> None:
        """Take in a step; touches no tensor and no row. Nobody changes what is given afterwards.

        Args:
            requests: Its rows; those that are unknown begin with their tokens.
            sampled: The new tokens of each; may be none.
            hidden: States, (any, hidden_size).
            first: Where in `hidden` the states are that a row's tokens were drawn from: of the
                first one, the others follow; None where each row has one, in their order.
        """
        if len(self._noted) == _MOST_STEPS:
            self._write()
        self._noted.append(_Noted(requests, sampled, hidden, first))

    def context(self, requests: Sequence[str]) -> Context:
        """Return what the last rows of these requests may look at; unknown ones see nothing.

        Raises:
            HeadInputError: There are more requests than there is room for.
        """
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
        if requests and self._noted:
            self._write()
        self._free += [self._places.pop(name) for name in requests if name in self._places]

    def clear(self) -> None:
        """Forget everything."""
        self._noted.clear()
        self.forget(list(self._places))

    def _write(self) -> None:
        """Make entries of the rows that were noted; of more than a ring holds, the last ones.

        Raises:
            HeadInputError: There are more requests than there is room for.
        """
        noted, self._noted = self._noted, []
        ring = self._ring
        # For each place of each ring the last row that goes there: step, its state, its token.
        newest: dict[tuple[int, int], tuple[int, int, int]] = {}
        for step, (requests, sampled, _, first) in enumerate(noted):
            for row, tokens in enumerate(sampled):
                if not tokens:
                    continue
                place = self._place(requests[row])
                begin = row if first is None else first[row]
                number = self._rows[place]
                for ahead, token in enumerate(tokens):
                    at = place, (number + ahead) % ring
                    newest[at] = step, begin + ahead, token
                self._rows[place] = number + len(tokens)
        if not newest:
            return
        rows = sorted(newest.items(), key=_step_of)
        hidden = torch.cat(
            [
                noted[step].hidden[[state for _, (_, state, _) in group]]
                for step, group in groupby(rows, key=_step_of)
            ]
        )
        tokens = torch.tensor([token for _, (_, _, token) in rows], device=hidden.device)
        keys, values = self._head.record(hidden, tokens)
        places = [place for (place, _), _ in rows]
        here = [at for (_, at), _ in rows]
        behind = [(at + 1) % ring for at in here]
        self._values[places, :, here] = values.to(self._values.dtype)
        self._keys[places, :, behind] = keys.to(self._keys.dtype)

    def _place(self, request: str) -> int:
        place = self._places.get(request)
        if place is None:
            if not self._free:
                raise HeadInputError(f"found request {len(self._places) + 1}, no room for it")
            self._places[request] = place = self._free.pop()
            self._rows[place] = 0
        return place


def _step_of(row: tuple[tuple[int, int], tuple[int, int, int]]) -> int:
    return row[1][0]


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
