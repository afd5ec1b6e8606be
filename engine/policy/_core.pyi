"""The compiled core: what a step needs for each of its rows. The work is done in core/ (C++20)."""

from collections.abc import Sequence

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

    Its proposals are scored in hindsight, whether they were drafted or not.

    Args:
        overall: What was accepted of it in all requests.
        calibration: For a drafter that says how sure it is of its tokens.
    """

    def __init__(
        self, overall: PositionAcceptance, calibration: ConfidenceCalibration | None = None
    ) -> None: ...
    def expected(self) -> list[float]:
        """Return the survival of a draft that it has yet to make."""

    def expected_gain(self, most: int, price: float) -> float:
        """Return what such a draft of up to `most` tokens is `worth` at a price."""

    def propose(
        self, tokens: Sequence[int], confidence: Sequence[float] | None = None
    ) -> list[float]:
        """Remember a proposal, and return the survival of its tokens.

        Args:
            tokens: What it proposes to come next.
            confidence: How sure it is of each, given the ones before: a probability; None where it
                does not say, or where there is no calibration.
        """

    def learn(self, sampled: Sequence[int]) -> None:
        """Score the last proposal by the tokens that came; then it is forgotten."""

class ForwardDrafter:
    """A drafter that costs a forward pass: a head, or a drafter of vLLM itself; over all requests.

    Args:
        most: Most tokens that it proposes; 0 where there is none.
        calibrated: Whether it says how sure it is of its tokens.
        probe_steps: How often it is asked although it is not worth it: it may have become so.
    """

    def __init__(self, most: int, *, calibrated: bool, probe_steps: int = 64) -> None: ...
    @property
    def most(self) -> int:
        """Most tokens that it proposes."""

    def guesser(self) -> Guesser:
        """Return it as a new request sees it."""

    def runs(self, *, pays: bool) -> bool:
        """Whether to run it, once a step: where it pays, and now and then to see if it would."""

class Marginals:
    """What each further token adds to a step.

    Args:
        added: What the next token adds to a step of so many; at least one number, never falling.
            Beyond the end the last one holds.

    Raises:
        ValueError: There is none.
    """

    def __init__(self, added: Sequence[float]) -> None: ...
    def at(self, tokens: int) -> float:
        """Return what one token more adds to a step of so many."""

    def time(self, tokens: int) -> float:
        """Return the time of a step that verifies so many; that of one token is 1."""

    def settle(self, drafts: Sequence[Sequence[float]], tokens: int, worth: float) -> float | None:
        """Buy tokens of all drafts, surest first, while they pay.

        Args:
            drafts: The survival of the tokens of each.
            tokens: What the step verifies anyway.
            worth: What a unit of time has to bring.

        Returns:
            A price that those that are bought reach and the others do not; None where all pay.
        """

class Price:
    """See `engine.policy.Price`, which is made of a step's cost.

    Args:
        cost: What each further token adds to a step, in steps of one token.
        margin: How much more a token must bring than it costs.
        least: Lowest price.
    """

    def __init__(self, cost: Marginals, margin: float, least: float) -> None: ...
    def learn(self, rows: int, drafted: int, emitted: int) -> None:
        """Take a finished step into the averages.

        Args:
            rows: Requests that got tokens.
            drafted: Draft tokens that were verified for them.
            emitted: Tokens that they got, at least one each.
        """

    def goodput(self, rows: int) -> float:
        """Return the tokens that so many rows bring in the time of a step of one token."""

    def floor(self, rows: int) -> float:
        """Return the price of a step's first draft token; no other is cheaper."""

    def of_time(self, time: float, rows: int) -> float:
        """Return the tokens that so much time must bring to be well spent.

        Without the margin: whoever expects the mean of a pass expects too little, as its draft will
        be cut where it turns out to be unsure (docs/adr/0014).

        Args:
            time: In steps of one token.
            rows: Requests that get a token anyway.
        """

    def settle(self, drafts: Sequence[Sequence[float]], rows: int) -> float:
        """Return the price at which the tokens that are bought are those that pay.

        Args:
            drafts: The survival of each token of each row's draft.
            rows: Requests that get a token anyway.
        """

def paying(survival: Sequence[float], price: float) -> int:
    """Return how many tokens of a draft are worth the price; `survival` never rises."""

def worth(survival: Sequence[float], price: float) -> float:
    """Return the gain of the best prefix of a draft, in tokens; 0 when none pays.

    Args:
        survival: Probability that each token and all before it are accepted; never rising.
        price: Survival at which a token pays for itself, 0 to 1.
    """
