"""Which source proposed which part of a draft, as one number for the wire.

vLLM hands `per_step_drafted` through to the HTTP answer and drops fields that it does not know, so
the gateway reads the source from the upper bits of these numbers (docs/adr/0013).
"""

from collections.abc import Iterator
from typing import NamedTuple

SUFFIX, HEAD, NATIVE, PREDICTION = 1, 2, 3, 4
SOURCE_NAMES = {SUFFIX: "suffix", HEAD: "head", NATIVE: "native", PREDICTION: "suffix"}
"""By code; text that follows a request's prediction is the suffix index's too."""

_DRAFTED_BITS = 16
_FIRST_SHIFT, _SECOND_SHIFT, _LENGTH_SHIFT = 16, 20, 24


class Origin(NamedTuple):
    """Where a draft comes from: `first_length` tokens of `first`, then all others of `second`.

    `second` 0: all of it is of `first`.
    """

    first: int
    second: int = 0
    first_length: int = 0

    def cut(self, length: int) -> "Origin":
        """Return the origin of the first `length` tokens alone."""
        if not self.second or length > self.first_length:
            return self
        return Origin(self.first)

    def encode(self, drafted: int) -> int:
        """Return the number for a step that verified `drafted` tokens; see docs/adr/0013."""
        code = drafted & ((1 << _DRAFTED_BITS) - 1) | self.first << _FIRST_SHIFT
        if self.second:
            code |= self.second << _SECOND_SHIFT | self.first_length << _LENGTH_SHIFT
        return code

    def split(self, count: int) -> Iterator[tuple[int, int, int]]:
        """Say whose the first `count` tokens of the draft are.

        Yields:
            Source code, place of its first token in the draft, tokens; parts without tokens are
            left out.
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
