"""A draft that a row could have, whoever made it: what it is worth, and where it is cut."""

from typing import NamedTuple

from engine.drafting.origin import Origin
from engine.policy import paying, worth


class Candidate(NamedTuple):
    """Tokens, how likely each is reached, and whose they are.

    Attributes:
        tokens: Token ids; whoever drafts them may keep the list.
        survival: For each, the probability that it and all before it are accepted; never rising.
        origin: Of the whole draft, however much of it is used.
    """

    tokens: list[int]
    survival: list[float]
    origin: Origin

    def gain(self, price: float) -> float:
        """Return what it brings at a price, in tokens above their cost."""
        return worth(self.survival, price)

    def cut(self, price: float) -> tuple[list[int], Origin]:
        """Return the tokens of it that are worth the price, and whose they are."""
        tokens, survival, origin = self
        length = paying(survival, price)
        if length == len(tokens):
            return tokens, origin
        return tokens[:length], origin.cut(length)
