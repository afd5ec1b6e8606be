"""What the twin learns of a tenant: how far matches and votes are to be trusted. See `twin.py`."""

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from engine._core.suffix import prior
from tests.unit.engine.suffix.twin_store import LONGEST_MATCH, Match, Store

# What core/ may change, by the file it stands in.
FORGET = 2000.0  # calibration.cpp
DENSE_STEP, DISCRETE_STEP = 0.1, 0.3
STEPS_AGAIN = 8
FAST, SLOW = 0.3, 0.05
TOKEN_COST, LENGTH_STEP, HIGHEST_PRICE = 0.0715, 0.002, 0.8  # calibration.hpp
TABLES = (208, 200, 1024, 512, 2048, 1024, 1024)

NO_DRAFT, WRONG, PARTLY_RIGHT, RIGHT = range(4)

Float = np.float32
HALF = Float(0.5)
PRIOR = cast(dict[str, Any], prior())


def sigmoid(x: Any) -> Any:
    return Float(1) / (Float(1) + np.exp(-x, dtype=Float))


class Reliability:
    """How often matches of a kind and length were right."""

    def __init__(self) -> None:
        outcomes = Float(PRIOR["outcomes"])
        self._seen = np.full((8, LONGEST_MATCH + 1), outcomes)
        self._right = np.array(PRIOR["reliability"], Float) * outcomes

    def odds(self, match: Match) -> Any:
        at = self._at(match)
        ratio = min(max(self._right[at] / self._seen[at], Float(0.02)), Float(0.98))
        return ratio / (Float(1) - ratio)

    def learn(self, match: Match, right: bool) -> None:
        at = self._at(match)
        self._right[at] += Float(right)
        self._seen[at] += Float(1)
        if self._seen[at] > FORGET:
            self._right[at] /= 2
            self._seen[at] /= 2

    def _at(self, match: Match) -> tuple[int, int]:
        return match.origin + 4 * match.latest, match.length


@dataclass(slots=True)
class Fortune:
    """How a request's latest drafts fared."""

    temperature: Any
    fast: Any = HALF
    slow: Any = HALF
    last: int = NO_DRAFT

    def learn(self, accepted: int, drafted: int) -> None:
        self.last = WRONG if accepted == 0 else PARTLY_RIGHT if accepted < drafted else RIGHT
        for i in range(min(drafted, accepted + 1)):
            outcome = Float(i < accepted)
            self.fast += Float(FAST) * (outcome - self.fast)
            self.slow += Float(SLOW) * (outcome - self.slow)


@dataclass(frozen=True, slots=True)
class Guess:
    """A token that was voted for, as the regression sees it."""

    token: int
    share: Any
    score: Any
    dense: Any
    discrete: list[int]


class Regression:
    """Logistic regression with AdaGrad steps."""

    def __init__(self) -> None:
        self._dense = np.array(PRIOR["dense"], Float)
        self._dense_squares = np.array(PRIOR["dense_squares"], Float)
        hashed = sum(TABLES) - len(PRIOR["weights"])
        self._weights = np.concatenate([PRIOR["weights"], np.zeros(hashed)], dtype=Float)
        self._squares = np.concatenate([PRIOR["squares"], np.ones(hashed)], dtype=Float)
        self._outcomes = 0

    def score(self, dense: Any, discrete: list[int]) -> Any:
        total = Float(0)
        for weight, feature in zip(self._dense, dense, strict=True):
            total += weight * feature
        for index in discrete:
            total += self._weights[index]
        return total

    def learn(self, guess: Guess, right: bool) -> None:
        if self._outcomes % STEPS_AGAIN == 0:
            self._steps = Float(DENSE_STEP) / np.sqrt(self._dense_squares)
        self._outcomes += 1
        error = Float(right) - sigmoid(guess.score)
        gradient = error * guess.dense
        self._dense_squares += gradient * gradient
        self._dense += gradient * self._steps
        for index in guess.discrete:
            self._squares[index] += error * error
            self._weights[index] += Float(DISCRETE_STEP) * error / np.sqrt(self._squares[index])


@dataclass(slots=True)
class Tenant:
    """What is kept for a tenant."""

    store: Store
    reliability: Reliability = field(default_factory=Reliability)
    regression: Regression = field(default_factory=Regression)
    mean_length: Any = field(default_factory=lambda: Float(2))

    def learn_length(self, accepted: int) -> None:
        self.mean_length += Float(LENGTH_STEP) * (Float(accepted + 1) - self.mean_length)

    def price(self, place: int) -> float:
        """The survival from which a token at that place pays."""
        root = np.sqrt(self.mean_length)
        first = Float(TOKEN_COST) * root * np.sqrt(root)
        return min(float(first * np.sqrt(Float(place + 1))), HIGHEST_PRICE)
