"""How often a source's draft tokens are accepted, by position: of one request and of all."""

from collections.abc import Sequence

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

    def learn(self, drafted: int, accepted: int) -> None:
        """Take one verified draft in: `accepted` of its `drafted` tokens were right."""
        fade = 1.0 - 1.0 / _MEMORY
        for position in range(min(accepted + 1, drafted, len(self._seen))):
            self._seen[position] = self._seen[position] * fade + 1.0
            self._accepted[position] = self._accepted[position] * fade + (position < accepted)
        if self._parent is not None:
            self._parent.learn(drafted, accepted)

    def survival(self) -> Sequence[float]:
        """Return for each position the chance that it and all before it are accepted."""
        chances: list[float] = []
        reached = 1.0
        for position in range(len(self._seen)):
            reached *= self._chance(position)
            chances.append(reached)
        return chances

    def _chance(self, position: int) -> float:
        before = self._start if self._parent is None else self._parent._chance(position)
        return (self._accepted[position] + _PRIOR * before) / (self._seen[position] + _PRIOR)
