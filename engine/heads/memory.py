"""What a head with a window remembers of running requests: the entries of their last rows."""

from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import Tensor

from engine.errors import HeadInputError
from engine.heads.drafting import Entry
from engine.heads.head import DraftHead
from engine.heads.view import View

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

    A request has `window` + 2 places in a table of keys and one of values: the first holds nothing,
    as `Context` wants it; entry e of it is at place 1 + e % window, so that what is filled is one
    piece, to be read where it is; at the last one its newest key waits for the next row's value.

    Args:
        head: With a window; folded.
        requests: Most of them at once.
        device: Where the head runs.

    Attributes:
        rows: How many rows of a request are ever seen, at most: its window, and the one before.
    """

    def __init__(self, head: DraftHead, *, requests: int, device: torch.device) -> None:
        config = head.config
        self._head = head
        self._window = window = config.window
        self.rows = window + 1
        shape = (requests, window + 2, config.attention_heads, config.attention_head_size)
        # On CPUs torch multiplies small bfloat16 matrices four times slower (adr/0017).
        dtype = torch.float32 if device.type == "cpu" else head.weights.dtype
        self._keys = torch.zeros(shape, dtype=dtype, device=device)
        self._values = torch.zeros(shape, dtype=dtype, device=device)
        self._places: dict[str, int] = {}
        self._free = list(range(requests))
        self._taken = [0] * requests
        self._ignored: set[str] = set()
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
            sampled: The new tokens of each; may be none. Of a prompt, those behind its states.
            hidden: States, (any, hidden_size).
            first: Where in `hidden` the states are that a row's tokens were drawn from: of the
                first one, the others follow; None where each row has one, in their order.
        """
        if len(self._noted) == _MOST_STEPS:
            self._write()
        self._noted.append(_Noted(requests, sampled, hidden, first))

    def ignore(self, request: str) -> None:
        """Make nothing of a request's rows, until it is forgotten: nobody will ask for them."""
        self._ignored.add(request)

    def view(self, requests: Sequence[str]) -> View:
        """Return what the last rows of these requests may look at; unknown ones see nothing.

        It is good until the next call of any method.

        Raises:
            HeadInputError: There are more requests than there is room for.
        """
        self._write()
        # Whoever has no place is shown another's, and sees nothing of it.
        places = [self._places.get(name, 0) for name in requests]
        filled = [
            min(max(self._taken[place] - 1, 0), self._window) if name in self._places else 0
            for name, place in zip(requests, places, strict=True)
        ]
        return View(self._keys, self._values, places, filled)

    def forget(self, requests: Collection[str]) -> None:
        """Free what requests hold that finished or lost their place; unknown ones are ignored."""
        if requests and self._noted:
            self._write()
        self._free += [self._places.pop(name) for name in requests if name in self._places]
        self._ignored.difference_update(requests)

    def clear(self) -> None:
        """Forget everything but whom to ignore."""
        self._noted.clear()
        self._free += self._places.values()
        self._places.clear()

    def _write(self) -> None:
        """Make entries of the rows that were noted; of more than anybody sees, the last ones.

        Raises:
            HeadInputError: There are more requests than there is room for.
        """
        noted, self._noted = self._noted, []
        waiting: list[tuple[int, int]] = []
        rows: list[Entry] = []
        for place, pieces in self._by_place(noted).items():
            taken = self._taken[place]
            if taken:
                waiting.append(self._move(place, taken))
            rows += self._number(place, taken, pieces)
            self._taken[place] = taken + sum(len(piece[2]) for piece in pieces)
        if rows:
            rows.sort(key=itemgetter(0))
            states = [step.hidden for step in noted]
            self._head.write(states, rows, waiting, self._keys, self._values)

    def _by_place(self, noted: Sequence[_Noted]) -> dict[int, list[tuple[int, int, Sequence[int]]]]:
        """Return for each place what was noted of its request: step, first state, tokens."""
        pieces: dict[int, list[tuple[int, int, Sequence[int]]]] = {}
        for step, (requests, sampled, _, first) in enumerate(noted):
            for row, tokens in enumerate(sampled):
                if not tokens or requests[row] in self._ignored:
                    continue
                begin = row if first is None else first[row]
                pieces.setdefault(self._place(requests[row]), []).append((step, begin, tokens))
        return pieces

    def _number(
        self, place: int, taken: int, pieces: Sequence[tuple[int, int, Sequence[int]]]
    ) -> list[Entry]:
        """Return the new rows of a request that anybody sees, and where they go.

        The value of the first of them goes where no one looks if there is no key before it, or if
        as many entries follow as are ever seen.
        """
        window, base = self._window, place * (self._window + 2)
        aside = base + window + 1
        singles = [
            (step, begin + ahead, token)
            for step, begin, tokens in pieces
            for ahead, token in enumerate(tokens)
        ]
        left_out = max(0, len(singles) - self.rows)
        rows = [
            Entry(*single, base + 1 + number % window, base + 1 + (number - 1) % window)
            for number, single in enumerate(singles[left_out:], taken + left_out)
        ]
        if not taken or len(rows) == self.rows:
            rows[0] = rows[0]._replace(value=aside)
        rows[-1] = rows[-1]._replace(key=aside)
        return rows

    def _move(self, place: int, taken: int) -> tuple[int, int]:
        """Return where the key goes that has waited for the next row, and where it is."""
        base = place * (self._window + 2)
        return base + 1 + (taken - 1) % self._window, base + self._window + 1

    def _place(self, request: str) -> int:
        place = self._places.get(request)
        if place is None:
            if not self._free:
                raise HeadInputError(f"found request {len(self._places) + 1}, no room for it")
            self._places[request] = place = self._free.pop()
            self._taken[place] = 0
        return place
