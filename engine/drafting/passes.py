"""The drafters that cost a forward pass: whether one is worth its time, and what it has shown."""

from engine.policy import ConfidenceCalibration, Guesser, PositionAcceptance


class ForwardDrafter:
    """A head, or a drafter of vLLM itself, over all requests.

    Args:
        most: Most tokens that it proposes; 0 where there is none.
        calibrated: Whether it says how sure it is of its tokens.
        probe_steps: How often it is asked although it is not worth it: it may have become so.
    """

    def __init__(self, most: int, *, calibrated: bool, probe_steps: int = 64) -> None:
        self.most = most
        self._overall = PositionAcceptance(most)
        self._calibration = ConfidenceCalibration(most) if calibrated else None
        self._probe_steps = probe_steps
        self._idle = 0

    def guesser(self, *, wanted: bool) -> Guesser | None:
        """Return it as a new request sees it; None where there is none, or it is not wanted."""
        return Guesser(self._overall, self._calibration) if wanted and self.most else None

    def runs(self, *, pays: bool) -> bool:
        """Whether to run it, once a step: where it pays, and now and then to see if it would."""
        self._idle = 0 if pays else self._idle + 1
        if self._idle == self._probe_steps:
            self._idle = 0
            return True
        return pays
