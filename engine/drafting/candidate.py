"""A draft that a row could have, whoever made it: what it is worth, and where it is cut."""

from collections.abc import Sequence
from typing import NamedTuple

from engine.drafting.origin import Origin
from engine.policy import worth


class Candidate(NamedTuple):
    """Tokens, how likely each is reached, and whose they are.

    Attributes:
        tokens: Token ids.
        survival: For each, the probability that it and all before it are accepted; never rising.
        origin: Of the whole draft, however much of it is used.
    """

    tokens: Sequence[int]
    survival: Sequence[float]
    origin: Origin

    def gain(self, price: float) -> float:
        """Return what it brings at a price, in tokens above their cost."""
        return worth(self.survival, price)

    def cut(self, price: float) -> "Candidate":
        """Return the part of it that is worth the price."""
        length = paying(self.survival, price)
        return Candidate(self.tokens[:length], self.survival[:length], self.origin.cut(length))


def paying(survival: Sequence[float], price: float) -> int:
    """Return how many tokens of a draft are worth the price."""
    length = 0
    for chance in survival:
        if chance < price:
            break
        length += 1
    return length
