"""What a drafter with a forward pass proposed for a request, and how much of that came true."""

from collections.abc import Sequence

from engine.policy import ConfidenceCalibration, PositionAcceptance


class Guesser:
    """One drafter in the eyes of one request: a head, or a drafter of vLLM itself.

    Its proposals are scored in hindsight, whether they were drafted or not.

    Args:
        overall: What was accepted of it in all requests.
        calibration: For a drafter that says how sure it is of its tokens.
    """

    __slots__ = ("_acceptance", "_calibration", "_confidence", "_rates", "_tokens")

    def __init__(
        self, overall: PositionAcceptance, calibration: ConfidenceCalibration | None = None
    ) -> None:
        self._acceptance = PositionAcceptance(overall.positions, parent=overall)
        self._calibration = calibration
        self._tokens: Sequence[int] = ()
        self._confidence: Sequence[float] = ()
        self._rates: Sequence[float] = ()

    def expected(self) -> Sequence[float]:
        """Return the survival of a draft that it has yet to make."""
        return self._acceptance.survival()

    def propose(
        self, tokens: Sequence[int], confidence: Sequence[float] | None = None
    ) -> Sequence[float]:
        """Remember a proposal, and return the survival of its tokens.

        Args:
            tokens: What it proposes to come next.
            confidence: How sure it is of each, given the ones before: a probability; None where it
                does not say, or where there is no calibration.
        """
        self._tokens = tokens
        if self._calibration is None or confidence is None:
            return self._acceptance.survival()[: len(tokens)]
        self._confidence = confidence
        self._rates = self._acceptance.rates()
        return self._calibration.survival(confidence, self._rates)[: len(tokens)]

    def learn(self, sampled: Sequence[int]) -> None:
        """Score the last proposal by the tokens that came; then it is forgotten."""
        if not self._tokens:
            return
        known = min(len(self._tokens), len(sampled))
        pairs = zip(self._tokens[:known], sampled[:known], strict=True)
        right = next((at for at, (guess, token) in enumerate(pairs) if guess != token), known)
        if self._calibration is not None and self._confidence:
            known = min(known, len(self._rates))
            self._calibration.learn(self._confidence[:known], self._rates[:known], right)
        self._acceptance.learn(known, right)
        self._tokens = self._confidence = self._rates = ()
