"""The gate: how sure a draft token must be to be worth verifying, and when a head's pass pays."""

from dataclasses import dataclass

from engine._core import policy as _core
from engine.policy.profile import Profile, check_profile


@dataclass(frozen=True, slots=True)
class Limits:
    """What an operator allows, whatever pays.

    Attributes:
        max_batch_size: Rows of a step up to which anything is drafted; None for no limit.
        min_acceptance_ratio: Accepted of drafted tokens of each source, 0 to 1. Where a source
            falls below, its least sure tokens are left out until it keeps it; where even the surest
            fail it is shut, and tried again some 500 steps later. Tokens that cost next to nothing
            (a price below a quarter of this) do not count.
    """

    max_batch_size: int | None = None
    min_acceptance_ratio: float = 0.4


class Gate(_core.Gate):
    """One price for all rows of a step: goodput times what one more token adds to the step.

    Verifying tokens that survive with probabilities s brings the sum of s and takes t longer. As
    time is worth G tokens a second, those are verified, surest first, that bring most beyond G * t;
    the least sure of them shows the price. G is what rows of late brought a step: the
    rows now, times the mean acceptance length of late, over the time of such a step. That is the
    rule of renewal rewards: what is spent now is taken from steps that bring the average. What a
    step takes is learnt from measured ones (docs/adr/0020).

    It has no clock and no randomness: told the same, it says the same.

    Args:
        step_cost: What is believed of a step's time by the tokens that it computes.
        pass_cost: Likewise of a pass of the head by its rows; in the same unit.
        most_rows: Most rows of a step that matter.
        longest_draft: Most tokens of a row that there could be to buy.
        limits: What an operator allows.
        least: Lowest price, also where tokens cost nothing: below it a draft is noise.

    Raises:
        ValueError: `step_cost` or `pass_cost` is no profile.
    """

    def __init__(
        self,
        step_cost: Profile,
        pass_cost: Profile = ((1, 0.1),),
        *,
        most_rows: int = 256,
        longest_draft: int = 32,
        limits: Limits = Limits(max_batch_size=None, min_acceptance_ratio=0.0),
        least: float = 0.01,
    ) -> None:
        check_profile(step_cost)
        check_profile(pass_cost)
        super().__init__(
            step_cost,
            pass_cost,
            longest=most_rows * (1 + longest_draft),
            most_rows=most_rows,
            longest_draft=longest_draft,
            max_batch_size=limits.max_batch_size,
            min_acceptance_ratio=limits.min_acceptance_ratio,
            least=least,
        )
