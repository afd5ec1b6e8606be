"""The price of a draft token: how sure it must be to be worth verifying."""

import math
from collections.abc import Sequence

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
        keep = math.exp(-rows / _HORIZON)
        self._length += (1.0 - keep) * (emitted / rows - self._length)
        self._drafted += (1.0 - keep) * (drafted / rows - self._drafted)

    def goodput(self, rows: int) -> float:
        """Return the tokens that so many rows bring in the time of a step of one token."""
        return rows * self._length / self._cost.time(round(rows * (1.0 + self._drafted)))

    def floor(self, rows: int) -> float:
        """Return the price of a step's first draft token; no other is cheaper."""
        if rows == 0:
            return 1.0
        price = self._margin * self.goodput(rows) * self._cost.marginal(rows)
        return min(1.0, max(self._least, price))

    def of_time(self, time: float, rows: int) -> float:
        """Return the tokens that so much time must bring to be well spent.

        Without the margin: whoever expects the mean of a pass expects too little, as its draft will
        be cut where it turns out to be unsure (docs/adr/0014).

        Args:
            time: In steps of one token.
            rows: Requests that get a token anyway.
        """
        return self.goodput(rows) * time

    def settle(self, drafts: Sequence[Sequence[float]], rows: int) -> float:
        """Return the price at which the tokens that are bought are those that pay.

        Args:
            drafts: The survival of each token of each row's draft.
            rows: Requests that get a token anyway.
        """
        worth = self._margin * self.goodput(rows)
        price = self._cost.settle(drafts, rows, worth)
        return self.floor(rows) if price is None else max(self._least, price)
