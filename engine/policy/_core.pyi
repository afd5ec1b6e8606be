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

    def settle(self, drafts: Sequence[Sequence[float]], tokens: int, worth: float) -> float | None:
        """Buy tokens of all drafts, surest first, while they pay.

        Args:
            drafts: The survival of the tokens of each.
            tokens: What the step verifies anyway.
            worth: What a unit of time has to bring.

        Returns:
            A price that those that are bought reach and the others do not; None where all pay.
        """

def paying(survival: Sequence[float], price: float) -> int:
    """Return how many tokens of a draft are worth the price; `survival` never rises."""

def worth(survival: Sequence[float], price: float) -> float:
    """Return the gain of the best prefix of a draft, in tokens; 0 when none pays.

    Args:
        survival: Probability that each token and all before it are accepted; never rising.
        price: Survival at which a token pays for itself, 0 to 1.
    """
