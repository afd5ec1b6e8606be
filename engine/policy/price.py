"""The price of a draft token: how sure it must be to be worth verifying."""

import numpy as np
from numpy.typing import NDArray

from engine.policy.step_cost import StepCost

_HORIZON = 24.0
"""Row-steps that the averages look back over: long enough to be steady, short enough to follow a
request from copying to writing and back."""


class Price:
    """One price for all rows of a step: goodput times what one more token adds to the step.

    Verifying a token that survives with probability s brings s tokens and takes t longer. As time
    is worth G tokens a unit, it pays while s >= G * t. G is what rows of late brought a step: the
    rows now, times the mean acceptance length of late, over the time of such a step. That is the
    rule of renewal rewards: what is spent now is taken from steps that bring the average.

    Args:
        cost: What a step takes.
        margin: How much more a token must bring than the formula says. Replays of recorded answers
            are fastest from 1.5 to 2 (docs/adr/0014): costs and survivals are known only roughly,
            and a token too many costs more than one too few.
        least: Lowest price, also where tokens cost nothing: below it a draft is noise.
    """

    def __init__(self, cost: StepCost, *, margin: float = 1.5, least: float = 0.01) -> None:
        self._cost = cost
        self._margin = margin
        self._least = least
        self._length = 1.0
        self._drafted = 0.0

    def learn(self, rows: int, drafted: int, emitted: int) -> None:
        """Take a finished step into the averages.

        Args:
            rows: Requests that got tokens.
            drafted: Draft tokens that were verified for them.
            emitted: Tokens that they got, at least one each.
        """
        if rows == 0:
            return
        keep = np.exp(-rows / _HORIZON)
        self._length += (1.0 - keep) * (emitted / rows - self._length)
        self._drafted += (1.0 - keep) * (drafted / rows - self._drafted)

    def goodput(self, rows: int) -> float:
        """Return the tokens that so many rows bring in the time of a step of one token."""
        return rows * self._length / self._cost.time(round(rows * (1.0 + self._drafted)))

    def floor(self, rows: int) -> float:
        """Return the price of a step's first draft token; no other is cheaper."""
        if rows == 0:
            return 1.0
        return min(1.0, max(self._least, float(self._prices(rows, 1)[0])))

    def settle(self, survival: NDArray[np.float32], rows: int) -> float:
        """Return the price at which the tokens that are bought are those that pay.

        Args:
            survival: Of all candidates of all rows, any order; shape (n,).
            rows: Requests that get a token anyway.
        """
        floor = self.floor(rows)
        wanted = np.sort(survival[survival >= floor])[::-1]
        if wanted.size == 0:
            return floor
        prices = self._prices(rows, wanted.size)
        too_dear = wanted < prices
        first = int(np.argmax(too_dear))
        if not too_dear[first]:
            return floor
        if first == 0:
            return float(prices[0])
        return float(min(wanted[first - 1], prices[first]))

    def _prices(self, rows: int, tokens: int) -> NDArray[np.float64]:
        """Return what each of a step's first draft tokens has to be worth; shape (tokens,)."""
        return self._margin * self.goodput(rows) * self._cost.marginal(rows, tokens)
