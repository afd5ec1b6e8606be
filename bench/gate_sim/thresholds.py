"""Rules that learn one number, acceptance, and act when it crosses a threshold."""

from collections import deque

import numpy as np

from engine.simulation.arrays import Flags
from engine.simulation.rule import Decision, Outcome, View
from engine.simulation.schedules import Source, draft

_SGLANG_STEPS = np.array([1, 3, 7])
_SGLANG_KEEP = 0.8
_SGLANG_WARM_UP, _SGLANG_INTERVAL = 10, 5
_SGLANG_DOWN = -0.25

_TENSORRT_TOKENS = 4
_TENSORRT_WINDOW = 64
_TENSORRT_LEAST = 0.4


class SGLang:
    """Moves between 1, 3 and 7 tokens by the recent accepted length, and never turns off.

    Every five steps after ten, with an average that keeps 0.8 of itself a step: down while the
    average is at most 0.75 below the next lower number, up while it is more than half a token below
    the present one. The head cannot propose more than it has positions.

    Source: SGLang's adaptive speculative decoding, strategy "ema" with candidates 1, 3, 7
    (docs.sglang.io, adaptive_speculative_decoding).
    """

    def __init__(self, lanes: int, source: Source) -> None:
        self._tier = np.ones(lanes, dtype=np.int64)
        self._average = _SGLANG_STEPS[self._tier] - 1.0
        self._seen = np.zeros(lanes, dtype=np.int64)
        self._suffix, self._head = _sources(lanes, source)

    def decide(self, view: View) -> Decision:
        """Draft as many tokens as the present tier has."""
        most = _SGLANG_STEPS[self._tier][:, None]
        return draft(view, most, suffix=self._suffix, head=self._head)

    def observe(self, view: View, decision: Decision, outcome: Outcome) -> None:
        """Take the accepted tokens of a sequence into the average; maybe change the tier."""
        sequences = view.decoding.sum(1)
        accepted = np.where(view.decoding, outcome.emitted - 1, 0).sum(1) / np.maximum(sequences, 1)
        moved = self._average + (1 - _SGLANG_KEEP) * (accepted - self._average)
        self._average = np.where(sequences > 0, moved, self._average)
        self._seen += sequences > 0
        since = self._seen - _SGLANG_WARM_UP
        due = (sequences > 0) & (since > 0) & (since % _SGLANG_INTERVAL == 0)
        steps = _SGLANG_STEPS
        for lane in np.flatnonzero(due):
            tier, average = int(self._tier[lane]), float(self._average[lane])
            before = tier
            while tier > 0 and average <= steps[tier - 1] - 0.5 + _SGLANG_DOWN:
                tier -= 1
            while tier >= before and tier < len(steps) - 1 and average > steps[tier] - 0.5:
                tier += 1
            self._tier[lane] = tier


class TensorRT:
    """A fixed number of tokens until too few are accepted; then none for the rest of the run.

    The average is over the last 64 steps that speculated, of accepted over drafted tokens.

    Source: TensorRT-LLM's `acceptance_rate_window_size` and `acceptance_rate_threshold`
    (nvidia.github.io/TensorRT-LLM, DecodingBaseConfig): "disabled permanently once the rolling
    average ... drops below". It gives no values; 0.4 is the floor that our operators get.
    """

    def __init__(self, lanes: int, source: Source) -> None:
        self._off = np.zeros((lanes, 1), dtype=np.bool_)
        self._ratios = [deque[float](maxlen=_TENSORRT_WINDOW) for _ in range(lanes)]
        self._suffix, self._head = _sources(lanes, source)

    def decide(self, view: View) -> Decision:
        """Draft while it is on."""
        most = np.where(self._off, 0, _TENSORRT_TOKENS)
        return draft(view, most, suffix=self._suffix, head=self._head)

    def observe(self, view: View, decision: Decision, outcome: Outcome) -> None:
        """Take the acceptance of a step into the average; maybe turn off."""
        drafted = decision.lengths.sum(1)
        accepted = np.where(view.decoding, outcome.emitted - 1, 0).sum(1)
        for lane in np.flatnonzero(drafted > 0):
            ratios = self._ratios[lane]
            ratios.append(float(accepted[lane] / drafted[lane]))
            if len(ratios) == _TENSORRT_WINDOW and sum(ratios) / len(ratios) < _TENSORRT_LEAST:
                self._off[lane] = True


def _sources(lanes: int, source: Source) -> tuple[Flags, Flags]:
    suffix = np.full((lanes, 1), source != "head")
    head = np.full((lanes, 1), source != "suffix")
    return suffix, head
