"""How often a source's draft tokens are accepted, by position: of one request and of all."""

import operator
from collections.abc import Sequence
from itertools import accumulate

_PRIOR = 4.0
"""Observations that the average of all requests counts for in the estimate of one."""
_MEMORY = 64.0
"""Observations of a position after which an older one has lost 63 % of its weight."""


class PositionAcceptance:
    """The chance that a token is accepted, given that all before it were.

    One of all requests without `parent`; of one request with it: what the request has not shown yet
    is taken from the parent (a beta prior of `_PRIOR` observations around the parent's mean).

    Args:
        positions: Most tokens of a draft.
        parent: What all requests have shown; also learns from this one.
        start: The chance before anything was seen, 0 to 1.
    """

    def __init__(
        self, positions: int, *, parent: "PositionAcceptance | None" = None, start: float = 0.5
    ) -> None:
        self._parent = parent
        self._start = start
        self._seen = [0.0] * positions
        self._accepted = [0.0] * positions

    @property
    def positions(self) -> int:
        """Most tokens of a draft."""
        return len(self._seen)

    def learn(self, drafted: int, accepted: int) -> None:
        """Take one verified draft in: `accepted` of its `drafted` tokens were right."""
        fade = 1.0 - 1.0 / _MEMORY
        for position in range(min(accepted + 1, drafted, len(self._seen))):
            self._seen[position] = self._seen[position] * fade + 1.0
            self._accepted[position] = self._accepted[position] * fade + (position < accepted)
        if self._parent is not None:
            self._parent.learn(drafted, accepted)

    def rates(self) -> Sequence[float]:
        """Return for each position how often it is accepted, given that all before it are."""
        if self._parent is None:
            before: Sequence[float] = [self._start] * len(self._seen)
        else:
            before = self._parent.rates()
        return [
            (accepted + _PRIOR * prior) / (seen + _PRIOR)
            for accepted, seen, prior in zip(self._accepted, self._seen, before, strict=True)
        ]

    def survival(self) -> Sequence[float]:
        """Return for each position the chance that it and all before it are accepted."""
        return list(accumulate(self.rates(), operator.mul))
