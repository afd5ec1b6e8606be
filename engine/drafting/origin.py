"""Which source proposed which part of a draft, encoded as one number.

vLLM passes `per_step_drafted` on to the HTTP response and drops fields that it does not know, so
the gateway reads the source from the upper bits of these numbers (docs/adr/0013).
"""

from collections.abc import Iterator
from typing import NamedTuple

SUFFIX, HEAD, NATIVE, PREDICTION = 1, 2, 3, 4
SOURCE_NAMES = {SUFFIX: "suffix", HEAD: "head", NATIVE: "native", PREDICTION: "suffix"}
"""Names by code. Text that follows a request's prediction comes from the suffix index too."""
TOKEN_SOURCE_NAMES = {**SOURCE_NAMES, PREDICTION: "prediction"}
"""The same, but such text has a name of its own."""

_DRAFTED_BITS = 16
_FIRST_SHIFT, _SECOND_SHIFT, _LENGTH_SHIFT = 16, 20, 24
_SOURCE, _LENGTH = 0xF, 0xFFFF


class Origin(NamedTuple):
    """The sources of a draft.

    Its first `first_length` tokens are from `first`, the others from `second`. With `second` 0 all
    tokens are from `first`.
    """

    first: int
    second: int = 0
    first_length: int = 0

    def encode(self, drafted: int) -> int:
        """Return the number for a step that verified `drafted` tokens (docs/adr/0013)."""
        code = drafted & ((1 << _DRAFTED_BITS) - 1) | self.first << _FIRST_SHIFT
        if self.second:
            code |= self.second << _SECOND_SHIFT | self.first_length << _LENGTH_SHIFT
        return code

    @classmethod
    def decode(cls, code: int) -> tuple["Origin", int]:
        """Return what `encode` was called on, and the number of drafted tokens."""
        first, second = code >> _FIRST_SHIFT & _SOURCE, code >> _SECOND_SHIFT & _SOURCE
        length = code >> _LENGTH_SHIFT & _LENGTH
        return cls(first, second, length), code & ((1 << _DRAFTED_BITS) - 1)

    def split(self, count: int) -> Iterator[tuple[int, int, int]]:
        """Split the first `count` tokens of the draft by source.

        Yields:
            Source code, position of its first token in the draft, and number of tokens; only parts
            with tokens.
        """
        if not self.second:
            if count:
                yield self.first, 0, count
            return
        mine = min(count, self.first_length)
        if mine:
            yield self.first, 0, mine
        if count > mine:
            yield self.second, mine, count - mine
