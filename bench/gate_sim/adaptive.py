"""vLLM's adaptive verification: how many tokens of a head to verify, and whose."""

import numpy as np

from engine.simulation.arrays import Floats, Ints
from engine.simulation.curve import Curve
from engine.simulation.rule import Decision, Outcome, View
from engine.simulation.texts import HEAD


class Adaptive:
    """Of all tokens that a head drafts on the device, the likeliest are verified.

    How many: as bring most expected tokens for the time of the step, by the confidences of the last
    step, which are on the CPU, and by step times that were measured at the start. Whose: by the new
    confidences, on the device.

    Source: vLLM 0.33, `vllm/v1/worker/gpu/spec_decode/adaptive_verification.py`, upstream PR 47808.

    Args:
        curve: Of the machine.
        lanes: How many.
    """

    def __init__(self, curve: Curve, lanes: int) -> None:
        at, seconds = zip(*curve.profile(), strict=True)
        most = curve.step.shape[1]
        self._seconds = np.interp(np.arange(most), at, seconds)
        self._stale: list[Floats] = [np.zeros(0)] * lanes

    def decide(self, view: View) -> Decision:
        """Verify the likeliest tokens of each lane."""
        lengths = np.zeros(view.decoding.shape, dtype=np.int64)
        ran = np.zeros(len(lengths), dtype=np.int64)
        for lane, decoding in enumerate(view.decoding):
            at = np.flatnonzero(decoding & (view.room[lane] > 0))
            fresh = np.cumprod(view.offers.confidence[view.now[lane, at]], axis=1)
            fresh *= np.arange(HEAD) < view.room[lane, at][:, None]
            plain = int(decoding.sum() + view.prompt_tokens[lane])
            budget = min(self._budget(plain, self._stale[lane]), int((fresh > 0).sum()))
            lengths[lane, at] = _share(fresh, budget)
            self._stale[lane] = fresh.ravel()
            ran[lane] = len(at)
        return Decision(lengths, view.decoding, ran)

    def observe(self, view: View, decision: Decision, outcome: Outcome) -> None:
        """Learn nothing: step times and confidences are taken as they are."""

    def _budget(self, plain: int, stale: Floats) -> int:
        if plain == 0:
            return 0
        expected = plain + np.concatenate([[0.0], np.cumsum(np.sort(stale)[::-1])])
        return int(np.argmax(expected / self._seconds[plain : plain + len(expected)]))


def _share(survival: Floats, budget: int) -> Ints:
    """Return how many tokens of each sequence are among so many likeliest; (sequences,)."""
    taken = np.zeros(survival.size, dtype=np.int64)
    taken[np.argsort(-survival, axis=None, kind="stable")[:budget]] = 1
    return np.asarray(taken.reshape(survival.shape).sum(1))
