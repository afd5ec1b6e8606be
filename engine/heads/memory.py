"""What a head with a window remembers of running requests: the entries of their last rows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count, groupby, repeat
from operator import itemgetter

import torch
from torch import Tensor

from engine.errors import HeadInputError
from engine.heads.drafting import Entry
from engine.heads.head import DraftHead
from engine.heads.view import Tables, View

_MOST_STEPS = 64
"""Steps that are kept as they came before they are handed to their requests."""

_MOST_BYTES = 32 << 20
"""Of states that are kept as they came before those that nobody will see are let go."""


_Noted = tuple[Sequence[str], Sequence[Sequence[int]], Tensor, Sequence[int] | None]
"""A step as it came: the arguments of `HeadMemory.note`."""


_Piece = tuple[Tensor, int, Sequence[int]]
"""Rows of a request without entries: a step's states, where the first row is, and their tokens."""


class HeadMemory:
    """A ring of entries for each request.

    Rows are only noted when a step brings them; keys and values are computed when somebody asks for
    their request. So steps that do not draft cost next to nothing, nor does a request that ends
    before anybody asks.

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
        self._tables = Tables(
            torch.zeros(shape, dtype=dtype, device=device),
            torch.zeros(shape, dtype=dtype, device=device),
            torch.full(shape[:2], -1, device=device),
        )
        self._places: dict[str, int] = {}
        self._free = list(range(requests))
        self._taken = [0] * requests
        self._ignored: set[str] = set()
        self._noted: list[_Noted] = []
        self._waiting: list[list[_Piece]] = [[] for _ in range(requests)]
        self._kept_bytes = 0  # of states that came since some were let go

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
        if len(self._noted) == _MOST_STEPS or self._kept_bytes > _MOST_BYTES:
            self._hand_out()
        self._noted.append((requests, sampled, hidden, first))
        self._kept_bytes += hidden.nbytes

    def ignore(self, request: str) -> None:
        """Make nothing of a request's rows, until it is forgotten: nobody will ask for them."""
        self._ignored.add(request)

    def view(self, requests: Sequence[str]) -> View:
        """Return what the last rows of these requests may look at; unknown ones see nothing.

        It is good until the next call of any method.

        Raises:
            HeadInputError: There are more requests than there is room for.
        """
        self._hand_out()
        # Whoever has no place is shown another's, and sees nothing of it.
        places = [self._places.get(name, 0) for name in requests]
        self._write(places)
        filled = [
            min(max(self._taken[place] - 1, 0), self._window) if name in self._places else 0
            for name, place in zip(requests, places, strict=True)
        ]
        return View(self._tables, places, filled)

    def forget(self, requests: Collection[str]) -> None:
        """Free what requests hold that finished or lost their place; unknown ones are ignored."""
        if not requests:
            return
        self._hand_out()
        for name in requests:
            if name in self._places:
                place = self._places.pop(name)
                self._waiting[place] = []
                self._free.append(place)
        self._ignored.difference_update(requests)

    def clear(self) -> None:
        """Forget everything but whom to ignore."""
        self._noted.clear()
        self._waiting = [[] for _ in self._waiting]
        self._kept_bytes = 0
        self._free += self._places.values()
        self._places.clear()

    def _hand_out(self) -> None:
        """Give what steps brought to the requests that it belongs to.

        Raises:
            HeadInputError: There are more requests than there is room for.
        """
        noted, self._noted = self._noted, []
        # Request by request: most steps have the rows of the one before.
        for requests, group in groupby(noted, key=itemgetter(0)):
            steps = list(group)
            for row, name in enumerate(requests):
                if name in self._ignored:
                    continue
                pieces = [
                    (hidden, row if first is None else first[row], sampled[row])
                    for _, sampled, hidden, first in steps
                    if sampled[row]
                ]
                if pieces:
                    self._waiting[self._place(name)] += pieces
        if self._kept_bytes > _MOST_BYTES:
            self._let_go()

    def _let_go(self) -> None:
        """Copy the rows that wait and will be seen, so that nothing holds the steps they are of."""
        self._kept_bytes = 0
        for place, pieces in enumerate(self._waiting):
            if not pieces:
                continue
            tokens = [token for _, _, some in pieces for token in some]
            unseen = max(0, len(tokens) - self.rows)
            # They count as taken: the rows behind them fill the ring.
            self._taken[place] += unseen
            left, parts = unseen, []
            for hidden, begin, some in pieces:
                skipped = min(left, len(some))
                left -= skipped
                parts.append(hidden[begin + skipped : begin + len(some)])
            self._waiting[place] = [(torch.cat(parts), 0, tokens[unseen:])]

    def _write(self, places: Iterable[int]) -> None:
        """Make entries of the rows that wait at some places; of more than anybody sees the last."""
        states: dict[int, Tensor] = {}
        moves: list[tuple[int, int]] = []
        entries: list[Entry] = []
        for place in places:
            pieces, self._waiting[place] = self._waiting[place], []
            if not pieces:
                continue
            for hidden, _, _ in pieces:
                states.setdefault(id(hidden), hidden)
            if self._taken[place]:
                moves.append(self._move(place))
            entries += self._number(place, pieces, {step: at for at, step in enumerate(states)})
        if entries:
            entries.sort(key=itemgetter(0))
            self._head.write(list(states.values()), entries, moves, self._tables)

    def _move(self, place: int) -> tuple[int, int]:
        """Return where the key goes that has waited for the next row, and where it is."""
        base = place * (self._window + 2)
        return base + 1 + (self._taken[place] - 1) % self._window, base + self._window + 1

    def _number(
        self, place: int, pieces: Sequence[_Piece], steps: Mapping[int, int]
    ) -> list[Entry]:
        """Return the new rows of a request that anybody sees, and where they go.

        The value of the first of them goes where no one looks if there is no key before it, or if
        as many entries follow as are ever seen.

        Args:
            place: Of the request; from now on it has taken these rows.
            pieces: Oldest first.
            steps: The number of each step, by its states' identity.
        """
        window, base = self._window, place * (self._window + 2)
        aside = base + window + 1
        taken = self._taken[place]
        sources: list[tuple[int, int, int]] = []
        for hidden, begin, tokens in pieces:
            sources += zip(repeat(steps[id(hidden)]), count(begin), tokens, strict=False)
        end = self._taken[place] = taken + len(sources)
        first = max(taken, end - self.rows)
        ring = [base + 1 + number % window for number in range(first - 1, end)]
        rows = [
            Entry(*source, key, value)
            for source, key, value in zip(sources[first - taken :], ring[1:], ring, strict=False)
        ]
        if not taken or len(rows) == self.rows:
            rows[0] = rows[0]._replace(value=aside)
        rows[-1] = rows[-1]._replace(key=aside)
        return rows

    def _place(self, request: str) -> int:
        place = self._places.get(request)
        if place is None:
            if not self._free:
                raise HeadInputError(f"found request {len(self._places) + 1}, no room for it")
            self._places[request] = place = self._free.pop()
            self._taken[place] = 0
        return place
