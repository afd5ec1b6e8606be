"""The entries of running requests' last text positions, for a head with a window."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count, groupby, repeat
from operator import itemgetter

import torch
from torch import Tensor

from engine.errors import HeadInputError
from engine.heads.drafting import Entry, Update
from engine.heads.head import DraftHead
from engine.heads.view import Tables, View

_MOST_STEPS = 64
"""Steps that are kept unsorted before they are distributed to their requests."""

_MOST_BYTES = 32 << 20
"""Limit of kept states; above it, states that have left all windows are released."""


_Noted = tuple[Sequence[str], Sequence[Sequence[int]], Tensor, Sequence[int] | None]
"""A step that was noted: the arguments of `HeadMemory.note`."""


_Piece = tuple[Tensor, int, Sequence[int]]
"""Positions of a request without entries yet: a step's states, index of the first, their tokens."""


class HeadMemory:
    """A ring buffer of entries for each request.

    `note` only stores what a step brought. Keys and values are computed when `view` asks for the
    request. So steps that do not draft cost almost nothing, nor do requests that end before then.

    Each request has a slot of `window` + 2 elements in a table of keys and in one of values. The
    first element is empty, as `Context` requires. Entry e is element 1 + e % window, so the filled
    part is contiguous and can be read in place. In the last element the newest key waits for the
    value of the next position.

    Args:
        head: A head with a window.
        requests: Maximum number of requests at once.
        device: Where the head runs.

    Attributes:
        reach: How many of a request's last positions can matter: the window and one before it.
        tables: The entries of all requests.
    """

    def __init__(self, head: DraftHead, *, requests: int, device: torch.device) -> None:
        config = head.config
        self._head = head
        self._window = window = config.window
        self.reach = window + 1
        shape = (requests, window + 2, config.attention_heads, config.attention_head_size)
        # On CPUs torch multiplies small bfloat16 matrices four times as slowly (adr/0017).
        dtype = torch.float32 if device.type == "cpu" else head.weights.dtype
        self.tables = Tables(
            torch.zeros(shape, dtype=dtype, device=device),
            torch.zeros(shape, dtype=dtype, device=device),
            torch.full(shape[:2], -1, device=device),
        )
        self._slots: dict[str, int] = {}
        self._free = list(range(requests))
        self._taken = [0] * requests
        self._ignored: set[str] = set()
        self._noted: list[_Noted] = []
        self._pending: list[list[_Piece]] = [[] for _ in range(requests)]
        self._kept_bytes = 0  # states noted since the last release

    @property
    def requests(self) -> Collection[str]:
        """The requests that have entries."""
        return self._slots.keys()

    def note(
        self,
        requests: Sequence[str],
        sampled: Sequence[Sequence[int]],
        hidden: Tensor,
        first: Sequence[int] | None = None,
    ) -> None:
        """Store a step without touching any tensor. The caller must not change the arguments later.

        Args:
            requests: The requests of the step; unknown ones begin with these tokens.
            sampled: New tokens of each, possibly none; for a prompt, the tokens that follow its
                states.
            hidden: States, (any, hidden_size).
            first: Index in `hidden` of the state from which each request's first token was
                sampled; the others follow. None if each request has one state, in order.
        """
        if len(self._noted) == _MOST_STEPS or self._kept_bytes > _MOST_BYTES:
            self._distribute()
        self._noted.append((requests, sampled, hidden, first))
        self._kept_bytes += hidden.nbytes

    def ignore(self, request: str) -> None:
        """Compute nothing for a request until it is forgotten, since it never drafts."""
        self._ignored.add(request)

    def view(self, requests: Sequence[str]) -> View:
        """Return what the last positions of these requests can attend to; nothing for unknown ones.

        The result is valid until the next call of any method.

        Raises:
            HeadInputError: There are more requests than slots.
        """
        self._distribute()
        # An unknown request gets another's slot, but sees none of its entries.
        slots = [self._slots.get(name, 0) for name in requests]
        self._write(slots)
        filled = [
            min(max(self._taken[slot] - 1, 0), self._window) if name in self._slots else 0
            for name, slot in zip(requests, slots, strict=True)
        ]
        return View(self.tables, slots, filled)

    def forget(self, requests: Collection[str]) -> None:
        """Free the slots of requests that finished or were preempted; ignores unknown ones."""
        if not requests:
            return
        self._distribute()
        for name in requests:
            if name in self._slots:
                slot = self._slots.pop(name)
                self._pending[slot] = []
                self._free.append(slot)
        self._ignored.difference_update(requests)

    def clear(self) -> None:
        """Forget everything except which requests to ignore."""
        self._noted.clear()
        self._pending = [[] for _ in self._pending]
        self._kept_bytes = 0
        self._free += self._slots.values()
        self._slots.clear()

    def _distribute(self) -> None:
        """Assign noted steps to their requests.

        Raises:
            HeadInputError: There are more requests than slots.
        """
        noted, self._noted = self._noted, []
        # Group by equal batches: most steps have the requests of the step before.
        for requests, group in groupby(noted, key=itemgetter(0)):
            steps = list(group)
            for index, name in enumerate(requests):
                if name in self._ignored:
                    continue
                pieces = [
                    (hidden, index if first is None else first[index], sampled[index])
                    for _, sampled, hidden, first in steps
                    if sampled[index]
                ]
                if pieces:
                    self._pending[self._slot(name)] += pieces
        if self._kept_bytes > _MOST_BYTES:
            self._release()

    def _release(self) -> None:
        """Copy the pending states that are within reach, so that whole steps can be freed."""
        self._kept_bytes = 0
        for slot, pieces in enumerate(self._pending):
            if not pieces:
                continue
            tokens = [token for _, _, some in pieces for token in some]
            unseen = max(0, len(tokens) - self.reach)
            # Count them as taken: the positions after them fill the ring.
            self._taken[slot] += unseen
            left, parts = unseen, []
            for hidden, begin, some in pieces:
                skipped = min(left, len(some))
                left -= skipped
                parts.append(hidden[begin + skipped : begin + len(some)])
            self._pending[slot] = [(torch.cat(parts), 0, tokens[unseen:])]

    def _write(self, slots: Iterable[int]) -> None:
        """Compute the pending entries of some slots, as far as they are within reach."""
        states: dict[int, Tensor] = {}
        moves: list[tuple[int, int]] = []
        entries: list[Entry] = []
        for slot in slots:
            pieces, self._pending[slot] = self._pending[slot], []
            if not pieces:
                continue
            for hidden, _, _ in pieces:
                states.setdefault(id(hidden), hidden)
            if self._taken[slot]:
                moves.append(self._move(slot))
            entries += self._number(slot, pieces, {step: at for at, step in enumerate(states)})
        if entries:
            entries.sort(key=itemgetter(0))
            self._head.write(Update(list(states.values()), entries, moves, self.tables))

    def _move(self, slot: int) -> tuple[int, int]:
        """Return the destination and the source of the key that waits for its value."""
        base = slot * (self._window + 2)
        return base + 1 + (self._taken[slot] - 1) % self._window, base + self._window + 1

    def _number(self, slot: int, pieces: Sequence[_Piece], steps: Mapping[int, int]) -> list[Entry]:
        """Return the new entries of a request within reach, and where they go.

        The value of the first one goes to the unused last element if there is no key before it, or
        if the entries after it already fill the window.

        Args:
            slot: Slot of the request; these positions count as taken from now on.
            pieces: Oldest first.
            steps: Index of each step by the identity of its states.
        """
        window, base = self._window, slot * (self._window + 2)
        aside = base + window + 1
        taken = self._taken[slot]
        sources: list[tuple[int, int, int]] = []
        for hidden, begin, tokens in pieces:
            sources += zip(repeat(steps[id(hidden)]), count(begin), tokens, strict=False)
        end = self._taken[slot] = taken + len(sources)
        first = max(taken, end - self.reach)
        ring = [base + 1 + number % window for number in range(first - 1, end)]
        entries = [
            Entry(*source, key, value)
            for source, key, value in zip(sources[first - taken :], ring[1:], ring, strict=False)
        ]
        if not taken or len(entries) == self.reach:
            entries[0] = entries[0]._replace(value=aside)
        entries[-1] = entries[-1]._replace(key=aside)
        return entries

    def _slot(self, request: str) -> int:
        slot = self._slots.get(request)
        if slot is None:
            if not self._free:
                raise HeadInputError(f"no free slot for request {len(self._slots) + 1}")
            self._slots[request] = slot = self._free.pop()
            self._taken[slot] = 0
        return slot
