"""The gate: the survival that a draft token needs to be worth verifying."""

from collections.abc import Sequence

from engine._core import policy as _core
from engine.policy.profile import Profile, check_profile


class Gate(_core.Gate):
    """Sets one price for the draft tokens of all sequences of a step.

    Verifying tokens with survivals s yields sum(s) tokens and takes t seconds longer. If a second
    is worth G tokens, the gate verifies the tokens, in descending order of s, for which
    sum(s) - G * t is largest; the lowest s among them is the price. G is the recent yield: the
    number of sequences, times their mean acceptance length, over the time of such a step. That is
    the renewal reward theorem: time spent now is taken from steps of average yield. Step times are
    learnt from measured steps. See docs/gate.md, and docs/adr/0020 for the derivation.

    It has no clock and no randomness: the same calls give the same prices.

    Args:
        step_cost: Prior of a step's time by the tokens that it computes.
        pass_cost: Prior of the time of a head pass by its sequences, in the same unit.
        most_sequences: Most sequences of a step.
        longest_draft: Longest draft of a sequence, in tokens.
        edges: Numbers of tokens to which steps are padded, rising (CUDA graphs).
        max_batch_size: With more sequences in a step nothing is drafted; None for no limit.
        least: Lowest price, for when tokens cost nothing: less likely tokens are noise.

    Raises:
        ValueError: `step_cost` or `pass_cost` is not a valid profile.
    """

    def __init__(
        self,
        step_cost: Profile,
        pass_cost: Profile = ((1, 0.1),),
        *,
        most_sequences: int = 256,
        longest_draft: int = 32,
        edges: Sequence[int] = (),
        max_batch_size: int | None = None,
        least: float = 0.01,
    ) -> None:
        check_profile(step_cost)
        check_profile(pass_cost)
        super().__init__(
            step_cost,
            pass_cost,
            edges=edges,
            most_sequences=most_sequences,
            longest_draft=longest_draft,
            max_batch_size=max_batch_size,
            least=least,
        )
