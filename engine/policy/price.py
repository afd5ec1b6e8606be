"""The price of a draft token: how sure it must be to be worth verifying."""

from engine.policy import _core
from engine.policy.step_cost import StepCost


class Price(_core.Price):
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
        super().__init__(cost.marginals, margin, least)
