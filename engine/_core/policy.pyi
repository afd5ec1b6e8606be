"""Types of the compiled policy; the work is done in engine/policy/core (C++20)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

class Proposals:
    """A drafter's proposals for one request; `ForwardDrafter.proposals` makes it.

    Each is scored by the tokens that come, whether it was verified or not.
    """

    def expected_gain(self, most: int, price: float, had: float = 0.0) -> float:
        """Return the gain, as in `worth`, to expect of the next proposal.

        For a drafter that states probabilities it is the weighted mean gain of its latest
        proposals; for others the gain of the recent acceptance rates.

        Args:
            most: Most tokens of the proposal.
            price: Survival that pays for a token, 0 to 1.
            had: Gain of a draft that it would replace; only what goes beyond counts.
        """

    def propose(
        self, tokens: Sequence[int], confidence: Sequence[float] | None = None
    ) -> list[float]:
        """Take in a proposal and return the survival of its tokens.

        Args:
            tokens: Proposed token ids.
            confidence: The drafter's own probability of each token, given those before it. None if
                it states none, or is not calibrated.
        """

    def example(self) -> list[float]:
        """Return the survival of the latest proposal's tokens, as an example of the next one."""

    def usual(self) -> list[float]:
        """Return the survival of a proposal of which nothing is known, by acceptance so far."""

    def learn(self, sampled: Sequence[int]) -> None:
        """Score the last proposal by the tokens that came, and forget it."""

    def learn_verified(self, verified: int, accepted: int) -> None:
        """Take in how a proposal fared whose tokens were not known, as far as it was verified."""

class ForwardDrafter:
    """A drafter that needs a forward pass: a draft head, or vLLM's own drafter.

    Args:
        most: Most tokens of a proposal; 0: there is no such drafter.
        calibrated: Whether it states a probability for each token.
        probe_steps: While it does not pay, it is tried once in so many steps. After four tries in
            vain the interval doubles, after four more it triples.
    """

    def __init__(self, most: int, *, calibrated: bool, probe_steps: int = 64) -> None: ...
    @property
    def most(self) -> int:
        """Most tokens of a proposal."""

    def proposals(self, temperature: float = 0.0) -> Proposals:
        """Return the proposals of a new request.

        Args:
            temperature: Of sampling; 0: greedy. Requests share what they learn with others in the
                same class: greedy, up to 0.5, or above.
        """

    def runs(self, *, pays: bool) -> bool:
        """Return whether to run it in this step: if it pays, or to try it. Call once per step.

        The first eight steps are tries.
        """

    def trial(self, sequences: int) -> list[int]:
        """Return for which sequences, of so many, to run it in a try: a few, rotating."""

class Load:
    """What is known of the next step before it is scheduled.

    Args:
        sequences: Requests that get a token.
        prefill_tokens: Prompt tokens that it reads.
        context_tokens: Tokens in the KV caches of its sequences.
        waiting: Requests that it delays without giving them a token: those whose prompt is being
            read or could be. Requests that wait for a free slot do not count; a faster step lets
            them start sooner.
        room_tokens: Draft tokens that fit in the KV cache and in the step; None for no limit.
        read_tokens: Prompt tokens that the previous step read, announced or not.
    """

    def __init__(
        self,
        sequences: int,
        prefill_tokens: int = 0,
        context_tokens: int = 0,
        waiting: int = 0,
        room_tokens: int | None = None,
        read_tokens: int = 0,
    ) -> None: ...
    @property
    def sequences(self) -> int: ...
    @property
    def prefill_tokens(self) -> int: ...
    @property
    def context_tokens(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def room_tokens(self) -> int | None: ...
    @property
    def read_tokens(self) -> int: ...

class Gate:
    """See `engine.policy.Gate`, which checks the arguments of the constructor."""

    def __init__(
        self,
        steps: Sequence[tuple[float, float]],
        passes: Sequence[tuple[float, float]],
        *,
        edges: Sequence[int],
        most_sequences: int,
        longest_draft: int,
        max_batch_size: int | None,
        least: float,
    ) -> None: ...
    def learn(self, sequences: int, drafted: int, emitted: int) -> None:
        """Take in what a finished step brought.

        Args:
            sequences: Requests that got tokens.
            drafted: Draft tokens that were verified for them.
            emitted: Tokens that they got, at least one each.
        """

    def learn_trust(self, stated: float, accepted: int) -> None:
        """Take in how verified tokens of the suffix index fared.

        Args:
            stated: Sum of the survivals that the index stated, before `trust`.
            accepted: How many were accepted.
        """

    def believe(self, measured: Sequence[tuple[float, float]]) -> None:
        """Replace the prior of step times by times measured on this machine.

        Call it before anything is observed.

        Args:
            measured: (tokens, seconds): the first of 1 token; tokens rise, times do not fall.
        """

    def observe_step(
        self, tokens: int, context_tokens: int, seconds: float, verifying: int = 0
    ) -> float:
        """Take in how long a step took, and return the time that was expected, in seconds.

        Invalid measurements (0 or less, NaN, infinity) are ignored.

        Args:
            tokens: All that it computed: for sequences, drafts and prompts.
            context_tokens: Tokens in the KV caches of its sequences.
            seconds: Its time without the head's pass.
            verifying: Number of its sequences that got tokens, if any draft was verified; else 0.
        """

    def observe_head(self, sequences: int, seconds: float) -> None:
        """Take in how long a pass of the head over so many sequences took."""

    def begin(self, load: Load) -> None:
        """Begin to choose drafts for a step. Call once per step, after the last one was learnt."""

    def settle(self, drafts: Sequence[Sequence[float]] | NDArray[np.float64]) -> float:
        """Return the price that separates the draft tokens worth verifying from the others.

        Args:
            drafts: Survival of each token by draft; or of all tokens as float64 of shape (n,), in
                any order.
        """

    def offer(self, survival: NDArray[np.float64]) -> tuple[float, float]:
        """Return what a step with other drafts would be like; settles nothing.

        Args:
            survival: Of all their tokens, in any order; shape (n,).

        Returns:
            Its price, and the gain of these drafts beyond that of the drafts settled last, in
            expected tokens.
        """

    @property
    def buys(self) -> bool:
        """Whether the drafts settled last gain more together than verification costs."""

    def cost_of_pass(self, sequences: int) -> float:
        """Return how many expected tokens a pass of the head has to add to pay.

        That is the worth of its time, plus what the drafts still lack to pay for verification.
        """

    def predict_step(self, tokens: float, context_tokens: float = 0.0) -> float:
        """Return the time of a step: in the profile's unit before the first measurement, then s."""

    def predict_verification(self, sequences: float) -> float:
        """Return the time that verifying any draft adds to a step of so many sequences."""

    def step_curve(self) -> list[tuple[float, float]]:
        """Return (tokens, time) of steps without context."""

    def pass_curve(self) -> list[tuple[float, float]]:
        """Return (sequences, time) of passes of the head."""

    @property
    def floor(self) -> float:
        """Lower bound of the step's price."""

    @property
    def price(self) -> float:
        """The price settled last; above 1 if a limit forbids drafts."""

    @property
    def goodput(self) -> float:
        """Tokens per unit of time that such a step yields, from recent averages."""

    @property
    def trust(self) -> float:
        """Accepted over stated tokens of the suffix index, recently, 0.5 to 1.25.

        Survivals that it states are multiplied by it.
        """

    @property
    def is_measured(self) -> bool:
        """Whether a step was measured; times are then in seconds."""

    @property
    def is_limited(self) -> bool:
        """Whether the step has more sequences than `max_batch_size`."""

def paying(survival: Sequence[float], price: float) -> int:
    """Return how many leading tokens have at least this survival; `survival` must not rise."""

def worth(survival: Sequence[float], price: float) -> float:
    """Return the gain of a draft in tokens: the sum of survival - price over the tokens that pay.

    Args:
        survival: Probability that each token and all before it are accepted; must not rise.
        price: Survival that pays for a token, 0 to 1.
    """
