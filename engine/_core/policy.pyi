"""The compiled core: what a step needs for each of its rows. The work is done in core/ (C++20)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

class PositionAcceptance:
    """How often a source's draft tokens are accepted, given that all before them were.

    One of all requests without `parent`; of one request with it: what the request has not shown yet
    is taken from the parent (a beta prior of four observations around the parent's mean). Outcomes
    fade: after 64 of a position an older one has lost 63 % of its weight.

    Args:
        positions: Most tokens of a draft.
        parent: What all requests have shown, over as many positions; also learns from this one.
        start: The chance before anything was seen, 0 to 1.

    Raises:
        ValueError: The parent has other positions.
    """

    def __init__(
        self, positions: int, *, parent: PositionAcceptance | None = None, start: float = 0.5
    ) -> None: ...
    @property
    def positions(self) -> int:
        """Most tokens of a draft."""

    def learn(self, drafted: int, accepted: int) -> None:
        """Take one verified draft in: `accepted` of its `drafted` tokens were right."""

    def rates(self) -> list[float]:
        """Return for each position how often it is accepted, given that all before it are."""

    def survival(self) -> list[float]:
        """Return for each position the chance that it and all before it are accepted."""

class ConfidenceCalibration:
    """Chances that a head's tokens are accepted, from its own confidence.

    For each position of a draft a logistic model of two things, fitted online by AdaGrad: the
    logit of the probability that the head gives its token, and the logit of how often tokens of
    that position were accepted in this request of late.

    Args:
        positions: Most tokens of a draft.
    """

    def __init__(self, positions: int) -> None: ...
    def survival(self, confidence: Sequence[float], accepted: Sequence[float]) -> list[float]:
        """Return for each token the chance that it and all before it are accepted.

        Args:
            confidence: The head's probability of each of its tokens; what is no number counts as 0.
            accepted: How often a token of each position was, given that all before it were.
        """

    def learn(self, confidence: Sequence[float], accepted: Sequence[float], right: int) -> None:
        """Take in what came of a draft.

        Args:
            confidence: As given to `survival`, for the tokens of which it is known what came of
                them.
            accepted: Likewise.
            right: How many of the first of them were accepted.
        """

class Guesser:
    """One drafter in the eyes of one request: a head, or a drafter of vLLM itself.

    Its proposals are scored in hindsight, whether they were drafted or not. Made by
    `ForwardDrafter.guesser`.
    """

    def expected(self) -> list[float]:
        """Return the survival of a draft that it has yet to make."""

    def expected_gain(self, most: int, price: float) -> float:
        """Return what such a draft of up to `most` tokens is `worth` at a price.

        Of a drafter that says how sure it is: the mean of what its latest proposals were worth.
        """

    def propose(
        self, tokens: Sequence[int], confidence: Sequence[float] | None = None
    ) -> list[float]:
        """Remember a proposal, and return the survival of its tokens.

        Args:
            tokens: What it proposes to come next.
            confidence: How sure it is of each, given the ones before: a probability; None where it
                does not say, or where there is no calibration.
        """

    def expected_gain_beside(self, first: float) -> float:
        """Return what a proposal is likely to bring to a row that has another's draft.

        Args:
            first: The chance of that draft's first token.

        Returns:
            The mean of late, beside drafts that began as surely: what the better of both was
            `worth` above what would have been drafted alone, both as `weigh` had it.
        """

    def weigh(
        self, tokens: Sequence[int], survival: Sequence[float]
    ) -> tuple[list[float], list[float]]:
        """Set the last proposal against another's draft of the row.

        Where both name the same token both are more likely right, and each is less likely where
        they differ; how much so is learnt when it is known what came.

        Args:
            tokens: The draft.
            survival: For each token, or fewer, the probability that it and all before it are
                accepted.

        Returns:
            What is to be believed of the draft, and of the proposal.

        Raises:
            ValueError: There are more chances than tokens.
        """

    def brought(self, first: float, gain: float) -> None:
        """Take in what the last proposal brought beside a draft: `expected_gain_beside`."""

    def learn(self, sampled: Sequence[int]) -> None:
        """Score the last proposal by the tokens that came; then it is forgotten."""

class ForwardDrafter:
    """A drafter that costs a forward pass: a head, or a drafter of vLLM itself; over all requests.

    Args:
        most: Most tokens that it proposes; 0 where there is none.
        calibrated: Whether it says how sure it is of its tokens.
        probe_steps: How often it is tried although it is not worth it: it may have become so. After
            four tries in vain it is every second time, after four more every third.
    """

    def __init__(self, most: int, *, calibrated: bool, probe_steps: int = 64) -> None: ...
    @property
    def most(self) -> int:
        """Most tokens that it proposes."""

    def guesser(self, temperature: float = 0.0) -> Guesser:
        """Return it as a new request sees it.

        Args:
            temperature: At which its text is sampled; 0: greedily. Requests share what they show of
                the drafter with others that are greedy, up to 0.5, or above, like them.
        """

    def runs(self, *, pays: bool) -> bool:
        """Whether to run it, once a step: where it pays, and now and then to see if it would."""

    def trial(self, rows: int) -> list[int]:
        """Return which of so many rows to run it for where it is only tried: a few, in turn."""

SUFFIX: int
HEAD: int
NATIVE: int

class Curve:
    """What a step takes by its tokens: straight between points, never falling.

    Args:
        points: (tokens, time), at least one, rising in tokens. Behind the last one the last slope
            goes on; a time below the one before it counts as that.

    Raises:
        ValueError: There is none.
    """

    def __init__(self, points: Sequence[tuple[float, float]]) -> None: ...
    def time(self, tokens: float) -> float:
        """Return what a step of so many tokens takes."""

    def beside(self, more: Sequence[float]) -> Curve:
        """Return what a step takes in the mean, with one of so many tokens more.

        Args:
            more: Numbers of tokens, each as likely.

        Raises:
            ValueError: There is none.
        """

    def cheapest(self, tokens: float, most: float) -> float:
        """Return what one of up to `most` further tokens adds at the least.

        It is the lowest mean of any number of them; 0 where `most` is.
        """

    def settle(
        self,
        drafts: Sequence[Sequence[float]],
        tokens: int,
        *,
        worth: float,
        least: float,
        reach: float,
        most: int | None = None,
    ) -> tuple[float | None, float]:
        """Buy as many tokens of all drafts, surest first, as bring most beyond what they take.

        Args:
            drafts: The survival of the tokens of each.
            tokens: What the step computes anyway.
            worth: What a unit of time has to bring.
            least: Survival below which none is bought.
            reach: Over how many further tokens the price is taken.
            most: Most tokens to buy.

        Returns:
            A price that those that are bought reach and the others do not, None where all are;
            and the tokens that they bring beyond what they take.
        """

class CostModel:
    """How long a step takes, learnt from steps; see core/cost_model.hpp and docs/adr/0020.

    Args:
        profile: What is believed before anything is measured: (tokens, time) in any unit.
        longest: Most tokens that matter.
    """

    def __init__(self, profile: Sequence[tuple[float, float]], *, longest: int) -> None: ...
    def time(self, tokens: float, context_tokens: float = 0.0) -> float:
        """Return the time of a step that verifies nothing.

        In the profile's unit until one was observed, then in seconds.
        """

    def verification(self, rows: float) -> float:
        """Return what a step of so many rows takes longer if it verifies drafts; 0 or more."""

    def verification_doubt(self, rows: float) -> float:
        """Return the standard deviation of what is believed of that, in the same unit."""

    def observe(
        self, tokens: float, context_tokens: float, seconds: float, verifying: float = 0.0
    ) -> float:
        """Take a measured step in, and return what was expected of it.

        What is no measurement (a time of 0 or less, no number) is left out.

        Args:
            tokens: All that it computed.
            context_tokens: In the caches of its rows.
            seconds: What it took.
            verifying: Its rows, if it verified drafts.
        """

    @property
    def curve(self) -> Curve:
        """What is believed of steps without a context."""

    @property
    def points(self) -> list[tuple[float, float]]:
        """The time of steps without context, at the profile's points and at powers of two."""

class SourceFloor:
    """Keeps the tokens of a source from being accepted less often than allowed.

    Args:
        ratio: Accepted of drafted tokens, 0 to 1.
    """

    def __init__(self, ratio: float) -> None: ...
    def learn(self, drafted: int, accepted: int) -> None:
        """Take in what came of a step's draft tokens."""

    def wait(self) -> None:
        """A step goes by in which nothing of it is verified."""

    @property
    def least(self) -> float:
        """Survival below which nothing of it is drafted: 0 for no limit, above 1 for nothing."""

class Load:
    """A step to come, as far as it is known before it is scheduled.

    Args:
        rows: Requests that get a token.
        prefill_tokens: Of prompts that it reads.
        context_tokens: In the caches of its rows.
        waiting: Requests that it delays and gives no token: whose prompts are being read, or would
            be. Not those that wait for a seat: what is saved brings them theirs sooner.
        room_tokens: For drafts in the KV cache; None for no limit.
        read_tokens: Of prompts that the step before it read, foreseen or not.
    """

    def __init__(
        self,
        rows: int,
        prefill_tokens: int = 0,
        context_tokens: int = 0,
        waiting: int = 0,
        room_tokens: int | None = None,
        read_tokens: int = 0,
    ) -> None: ...
    @property
    def rows(self) -> int: ...
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

class Pace:
    """How many tokens a step a request gets of late."""

    def __init__(self) -> None: ...
    def learn(self, tokens: int) -> None:
        """Take in what a step brought it."""

    def count(self, mean: float) -> float:
        """Return what one of its tokens counts, where requests get `mean` tokens a step.

        The time in which it would have got that token otherwise: 1 for the mean request, less for
        one that gets on fast by itself.
        """

class Regime:
    """Follows the share of steps that drafted, of those in which something could have been drafted.

    It is shut when of some 64 steps of late fewer than 5 % drafted, and open again above 25 %; for
    people, so that not every flap counts.
    """

    def __init__(self) -> None: ...
    @property
    def is_open(self) -> bool:
        """What it is now; open at first."""

    def learn(self, *, drafted: bool) -> bool:
        """Take a step in; True if that changed what it is."""

class Gate:
    """See `engine.policy.Gate`, which checks what it is made of."""

    def __init__(
        self,
        steps: Sequence[tuple[float, float]],
        passes: Sequence[tuple[float, float]],
        *,
        longest: int,
        most_rows: int,
        longest_draft: int,
        max_batch_size: int | None,
        min_acceptance_ratio: float,
        least: float,
    ) -> None: ...
    def learn(self, rows: int, drafted: int, emitted: int, promised: float | None = None) -> None:
        """Take in what a finished step brought.

        Args:
            rows: Requests that got tokens.
            drafted: Draft tokens that were verified for them.
            emitted: Tokens that they got, at least one each.
            promised: How many of the draft tokens were to be accepted: the sum of their survival.
                None where nobody knows; as many as were.
        """

    def learn_source(self, source: int, drafted: int, accepted: int) -> None:
        """Take in what came of a source's tokens in that step.

        Raises:
            ValueError: `source` is not SUFFIX, HEAD or NATIVE.
        """

    def observe_step(
        self, tokens: int, context_tokens: int, seconds: float, verifying: int = 0
    ) -> float:
        """Take in how long a step took, and return what was expected, in seconds.

        Args:
            tokens: All that it computed: of rows, drafts and prompts.
            context_tokens: In the caches of its rows.
            seconds: Without the head's pass.
            verifying: Its rows that got tokens, if a draft was verified for any of them; else 0.
        """

    def observe_head(self, rows: int, seconds: float) -> None:
        """Take in how long a pass of the head took."""

    def begin(self, load: Load) -> None:
        """Say for what step drafts are chosen next: once a step, after what the last brought."""

    def settle(self, drafts: Sequence[Sequence[float]] | NDArray[np.float64]) -> float:
        """Return the price at which the tokens that are bought are those that pay.

        Args:
            drafts: The survival of each token of each row's draft; or of all of them, in any order.
        """

    def count(self, pace: Pace) -> float:
        """Return what a token counts of a request that gets on so fast.

        Survivals that are settled are to be multiplied by it, and cut where that is below the
        price.
        """

    @property
    def buys(self) -> bool:
        """Whether anything is verified at the price that was settled last.

        Where not, all drafts together bring less than it takes to verify any of them.
        """

    def cost_of_pass(self, rows: int) -> float:
        """Return the tokens that a pass of the head over so many rows has to bring.

        Beside the pass itself that is what drafts lack now until it pays to verify any.

        Without what promises of late were worth: that is in the price of what it drafts.
        """

    def least(self, source: int) -> float:
        """Return the survival that a token of a source must have whatever the price.

        0 for no limit, above 1 for none of it.

        Raises:
            ValueError: `source` is not SUFFIX, HEAD or NATIVE.
        """

    def predict_step(self, tokens: float, context_tokens: float = 0.0) -> float:
        """Return how long a step takes; in the profile's unit until one was observed."""

    def predict_verification(self, rows: float) -> float:
        """Return what a step of so many rows takes longer if it verifies any draft."""

    def step_curve(self) -> list[tuple[float, float]]:
        """Return (tokens, time) of steps without context."""

    def pass_curve(self) -> list[tuple[float, float]]:
        """Return (rows, time) of passes of the head."""

    @property
    def floor(self) -> float:
        """The price of the step's first draft token; no other is cheaper."""

    @property
    def price(self) -> float:
        """The one that was settled last; above 1 where a limit lets nothing through."""

    @property
    def goodput(self) -> float:
        """Tokens that such a step brings in a unit of time, by what steps of late brought."""

    @property
    def promise(self) -> float:
        """What tokens of late promised over what they kept; the price is so much higher."""

    @property
    def is_measured(self) -> bool:
        """Whether a step was observed: times are in seconds."""

    @property
    def is_probing(self) -> bool:
        """Whether some tokens, or none, are drafted in this step to see what steps then take."""

    @property
    def is_limited(self) -> bool:
        """Whether the step has more rows than may draft."""

def paying(survival: Sequence[float], price: float) -> int:
    """Return how many tokens of a draft are worth the price; `survival` never rises."""

def worth(survival: Sequence[float], price: float) -> float:
    """Return the gain of the best prefix of a draft, in tokens; 0 when none pays.

    Args:
        survival: Probability that each token and all before it are accepted; never rising.
        price: Survival at which a token pays for itself, 0 to 1.
    """
