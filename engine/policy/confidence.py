"""What a head's confidence in its own tokens is worth, learnt from what was accepted of them."""

import math
from collections.abc import Sequence

_STEP = 0.1
_START = (0.0, 0.8, 0.2)
"""Before anything was seen a head is taken mostly at its word."""
_EDGE = 1e-3
"""Probabilities are kept so far from 0 and 1: how sure a head is beyond that tells nothing."""


class ConfidenceCalibration:
    """Chances that a head's tokens are accepted, from its own confidence.

    For each position of a draft a logistic model of two things, fitted online by AdaGrad: the
    logit of the probability that the head gives its token, and the logit of how often tokens of
    that position were accepted in this request of late.

    Args:
        positions: Most tokens of a draft.
    """

    def __init__(self, positions: int) -> None:
        self._weights = [list(_START) for _ in range(positions)]
        self._squares = [[1.0] * len(_START) for _ in range(positions)]

    def survival(self, confidence: Sequence[float], accepted: Sequence[float]) -> list[float]:
        """Return for each token the chance that it and all before it are accepted.

        Args:
            confidence: The head's probability of each of its tokens.
            accepted: How often a token of each position was, given that all before it were.
        """
        chances: list[float] = []
        reached = 1.0
        for weights, sure, often in zip(self._weights, confidence, accepted, strict=False):
            reached *= _sigmoid(_dot(weights, _features(sure, often)))
            chances.append(reached)
        return chances

    def learn(self, confidence: Sequence[float], accepted: Sequence[float], right: int) -> None:
        """Take in what came of a draft.

        Args:
            confidence: As given to `survival`, for the tokens of which it is known what came of
                them.
            accepted: Likewise.
            right: How many of the first of them were accepted.
        """
        for position, (sure, often) in enumerate(zip(confidence, accepted, strict=True)):
            if position > right or position >= len(self._weights):
                return
            weights, squares = self._weights[position], self._squares[position]
            features = _features(sure, often)
            error = (position < right) - _sigmoid(_dot(weights, features))
            for at, feature in enumerate(features):
                gradient = error * feature
                squares[at] += gradient * gradient
                weights[at] += _STEP * gradient / math.sqrt(squares[at])


def _features(sure: float, often: float) -> tuple[float, float, float]:
    return 1.0, _logit(sure), _logit(often)


def _logit(chance: float) -> float:
    kept = min(max(chance, _EDGE), 1.0 - _EDGE)
    return math.log(kept / (1.0 - kept))


def _dot(weights: Sequence[float], features: Sequence[float]) -> float:
    return sum(weight * feature for weight, feature in zip(weights, features, strict=True))


def _sigmoid(score: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, score))))
