"""The twin's store: a text, and where its contexts were last seen. See `twin.py`."""

from collections.abc import Sequence
from dataclasses import dataclass

# What core/ may change, by the file it stands in.
CONTEXTS = (4, 2, 1)  # store.hpp
SLOTS = 1024  # context_table.hpp
WAYS = 4
LONGEST_TEXT = 2000  # store.cpp: up to here no table grows
LONGEST_MATCH = 64  # calibration.hpp

GAP = -1


class Hash:
    """Multilinear hashing with factors drawn from the salt by splitmix64."""

    def __init__(self, salt: int) -> None:
        self._factors = [self._mix(salt + i * 0x9E3779B97F4A7C15) | 1 for i in range(1, 6)]

    def slot(self, context: Sequence[int]) -> int:
        *factors, constant = self._factors
        newest_first = zip(factors, reversed(context), strict=False)
        total = constant + sum(factor * (token + 1) for factor, token in newest_first)
        return (total >> 32) % (1 << 32) % SLOTS

    @staticmethod
    def _mix(z: int) -> int:
        mask = (1 << 64) - 1
        z &= mask
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        return z ^ (z >> 31)


class Store:
    """A text, and for each slot the latest places that follow its contexts, newest first."""

    def __init__(self, hashed: Hash) -> None:
        self.text: list[int] = []
        self._hash = hashed
        self._places: dict[tuple[int, int], list[int]] = {}

    def append(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            for size in CONTEXTS:
                context = self.text[-size:]
                if len(context) == size and GAP not in (*context, token):
                    key = size, self._hash.slot(context)
                    here = len(self.text)
                    self._places[key] = [here, *self._places.get(key, [])][:WAYS]
            self.text.append(token)
        assert len(self.text) <= LONGEST_TEXT

    def places(self, recent: Sequence[int], size: int) -> list[int]:
        if len(recent) < size:
            return []
        return self._places.get((size, self._hash.slot(recent[-size:])), [])


@dataclass(slots=True)
class Match:
    """A place in a text that the request's latest tokens agree with."""

    store: Store
    next: int
    length: int
    origin: int
    latest: bool

    def vote(self) -> int:
        return self.store.text[self.next] if self.next < len(self.store.text) else GAP

    def follow(self) -> "Match":
        longer = min(self.length + 1, LONGEST_MATCH)
        return Match(self.store, self.next + 1, longer, self.origin, self.latest)
