"""The best that a step-by-step rule could do if it knew the true survival of every token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.gate_sim.arrays import Flags, Floats, Ints
from bench.gate_sim.engine import World
from bench.gate_sim.rule import Decision, Outcome, View
from bench.gate_sim.schedules import Source
from bench.gate_sim.texts import DEPTH, HEAD

_KEEP = 1.0 - 1.0 / 256.0
_PACE_KEEP, _PACE_PRIOR = 0.7, 2.0
"""Of a request's pace: what is kept a step, and steps of the mean pace that it begins with."""


class Oracle:
    """Verifies the tokens whose expected gain is worth more than the time that they take.

    It knows, for each sequence:

    - the true survival of every token that the suffix source offers, and of the head's tokens once
      the head has run; before that, draws of what their survival may turn out to be;
    - the true time of this step for every number of tokens;
    - its own speed under the present conditions, from expected tokens and true times: an average
      over 256 steps for each distinct set of conditions, and in the first step under new ones the
      best ratio of that step.

    A second is worth that speed for every request in the system. The time of prompts in a step is
    left out, as it is spent whatever the others draft.

    A token saves the time in which its sequence would have generated it anyway: little where the
    sequence is fast, as in a copy. So tokens are weighted by the mean pace over the sequence's own
    pace, in expected tokens per step.

    It does not know which tokens will be accepted, what comes after this step, or when conditions
    change. Sequences for the head are ordered by their marginal gain and the best number of them
    is taken, which is not always the best set.

    Args:
        world: What is true.
        lanes: How many.
        source: Where drafts may come from.
    """

    def __init__(self, world: World, lanes: int, source: Source) -> None:
        self._world = world
        self._source: Source = source
        self._speeds: list[dict[int, _Rate]] = [{} for _ in range(lanes)]
        self._paces = [_Paces() for _ in range(lanes)]

    def decide(self, view: View) -> Decision:
        """Choose for each lane by itself."""
        shape = view.decoding.shape
        lengths = np.zeros(shape, dtype=np.int64)
        from_head = np.zeros(shape, dtype=np.bool_)
        head_sequences = np.zeros(shape[0], dtype=np.int64)
        for lane in range(shape[0]):
            at = np.flatnonzero(view.decoding[lane])
            if not len(at):
                continue
            chosen = self._choose(view, lane, at)
            lengths[lane, at] = chosen.lengths
            from_head[lane, at] = chosen.from_head
            head_sequences[lane] = chosen.head_sequences
        return Decision(lengths, from_head, head_sequences)

    def observe(self, view: View, decision: Decision, outcome: Outcome) -> None:
        """Measurements are ignored, as the oracle knows the true values."""

    def _choose(self, view: View, lane: int, at: Ints) -> "_Chosen":
        truth, course = self._world.library.texts.truth, self._world.course
        positions, room = view.positions[lane, at], view.room[lane, at]
        inside = len(at) + int(view.prefilling[lane].sum()) + int(view.waiting[lane])
        requests = view.requests[lane, at].tolist()
        counts = self._paces[lane].counts(requests)[:, None]
        suffix = truth.suffix[positions] * (np.arange(DEPTH) < room[:, None])
        if self._source == "head":
            suffix = np.zeros_like(suffix)
        times, alone = self._times(view, lane, len(at))
        verify = self._verify(view, lane, len(at))
        speed = self._speeds[lane].setdefault(int(course.condition[view.stage[lane]]), _Rate(_KEEP))
        worth = speed.value * inside if speed.steps else _best_ratio(suffix, len(at), times, verify)
        market = _Market(times, verify, worth, len(at))
        valued = suffix * counts
        chosen = _Chosen(_lengths(valued, *market.buy(valued)), np.zeros(len(at), np.bool_), 0)
        head_seconds = 0.0
        if self._source != "suffix":
            within = (np.arange(HEAD) < room[:, None]) * counts
            before = truth.head_before[positions] * within[:, None]
            after = truth.head[positions] * within
            passes = course.slow[view.stage[lane]] * self._world.curve.head
            wanted = market.wants(valued, before, passes)
            if wanted.any():
                chosen = market.with_head(valued, after, wanted)
                head_seconds = float(passes[chosen.head_sequences])
        survival = np.where(chosen.from_head[:, None], _wide(truth.head[positions]), suffix)
        bought = (survival * (np.arange(DEPTH) < chosen.lengths[:, None])).sum(1)
        # Prompts of others take their time whatever these sequences draft, so it is left out.
        drafted = int(chosen.lengths.sum())
        seconds = float(alone[drafted]) + (verify if drafted else 0.0) + head_seconds
        speed.learn(len(at) + float(bought.sum()), seconds * len(at))
        self._paces[lane].learn(requests, (1.0 + bought).tolist())
        return chosen

    def _times(self, view: View, lane: int, decoding: int) -> tuple[Floats, Floats]:
        """Seconds of the step by draft tokens, and what they would be without prompts."""
        sequences = decoding + int(view.prefilling[lane].sum())
        first = decoding + int(view.prompt_tokens[lane])
        return self._line(view, lane, sequences, first), self._line(view, lane, decoding, decoding)

    def _verify(self, view: View, lane: int, sequences: int) -> float:
        course, stage = self._world.course, view.stage[lane]
        return float(course.slow[stage] * course.steep[stage] * self._world.curve.verify[sequences])

    def _line(self, view: View, lane: int, sequences: int, first: int) -> Floats:
        course, curve = self._world.course, self._world.curve
        line = curve.step[sequences, first : first + sequences * DEPTH + 1]
        plain = curve.step[sequences, sequences]
        context = curve.context_seconds * view.context[lane]
        slow, steep = course.slow[view.stage[lane]], course.steep[view.stage[lane]]
        return np.asarray(slow * (plain + context + steep * (line - plain)))


@dataclass(slots=True)
class _Rate:
    """Tokens over something, of late."""

    keep: float
    tokens: float = 0.0
    steps: float = 0.0

    @property
    def value(self) -> float:
        return self.tokens / self.steps

    def learn(self, tokens: float, steps: float) -> None:
        self.tokens = self.keep * self.tokens + tokens
        self.steps = self.keep * self.steps + steps


class _Paces:
    """How many tokens a step requests get of late, and all of them together."""

    def __init__(self) -> None:
        self._mean = _Rate(_KEEP, 1.0, 1.0)
        self._own: dict[int, _Rate] = {}

    def counts(self, requests: Sequence[int]) -> Floats:
        """By request, what one of its tokens counts."""
        own = [self._of(request) for request in requests]
        mean = self._mean.value
        return np.array(
            [mean * (rate.steps + _PACE_PRIOR) / (rate.tokens + _PACE_PRIOR * mean) for rate in own]
        )

    def learn(self, requests: Sequence[int], tokens: Sequence[float]) -> None:
        self._mean.learn(sum(tokens), len(tokens))
        for request, count in zip(requests, tokens, strict=True):
            self._of(request).learn(count, 1.0)

    def _of(self, request: int) -> _Rate:
        return self._own.setdefault(request, _Rate(_PACE_KEEP))


@dataclass(frozen=True, slots=True)
class _Chosen:
    lengths: Ints
    from_head: Flags
    head_sequences: int


@dataclass(frozen=True, slots=True)
class _Market:
    """What time costs in a step.

    Attributes:
        times: Seconds of the step by draft tokens, without `verify`.
        verify: What any of them adds.
        worth: Tokens that a second is worth.
        sequences: That decode.
    """

    times: Floats
    verify: float
    worth: float
    sequences: int

    def buy(self, survival: Floats) -> tuple[Floats, int]:
        """The survival of all tokens, falling, and how many of the first to take."""
        ranked, bought = self._would_buy(survival)
        return ranked, bought if self._missing(ranked, bought) == 0.0 else 0

    def price(self, survival: Floats) -> float:
        """What a token has to survive with, at the margin of the best choice."""
        ranked, bought = self._would_buy(survival)
        further = min(bought + self.sequences, len(self.times) - 1)
        slope = (self.times[further] - self.times[bought]) / max(1, further - bought)
        highest = ranked[bought - 1] if bought else np.inf
        lowest = ranked[bought] if bought < len(ranked) else 0.0
        return float(min(max(self.worth * slope, lowest), highest))

    def wants(self, suffix: Floats, before: Floats, passes: Floats) -> Flags:
        """The sequences that the head is to run for, from what is known before its pass."""
        price = self.price(suffix)
        gains = (_above(before, price).mean(1) - _above(suffix, price)).clip(min=0.0)
        order = np.argsort(-gains, kind="stable")
        costs = self.worth * passes[: len(order) + 1] + self._missing(*self._would_buy(suffix))
        values = np.concatenate([[0.0], np.cumsum(gains[order])]) - costs
        values[0] = 0.0
        wanted = np.zeros(len(order), dtype=np.bool_)
        wanted[order[: int(np.argmax(values))]] = True
        return wanted

    def with_head(self, suffix: Floats, head: Floats, wanted: Flags) -> _Chosen:
        """Choose again, now that the head has run."""
        price = self.price(np.where(wanted[:, None], _wide(head), suffix))
        better = wanted & (_above(head, price) > _above(suffix, price))
        mixed = np.where(better[:, None], _wide(head), suffix)
        return _Chosen(_lengths(mixed, *self.buy(mixed)), better, int(wanted.sum()))

    def _would_buy(self, survival: Floats) -> tuple[Floats, int]:
        """The same, if something is verified anyway."""
        ranked = _ranked(survival)
        return ranked, int(np.argmax(self._values(ranked)))

    def _missing(self, ranked: Floats, bought: int) -> float:
        """Tokens that are missing until verification is paid for."""
        return max(0.0, self.worth * self.verify - float(self._values(ranked)[bought]))

    def _values(self, ranked: Floats) -> Floats:
        gained = np.concatenate([[0.0], np.cumsum(ranked)])
        spent = self.worth * (self.times[: len(gained)] - self.times[0])
        return np.asarray(gained - spent)


def _ranked(survival: Floats) -> Floats:
    """All tokens that there are, surest first."""
    return np.sort(survival[survival > 0.0], axis=None)[::-1]


def _best_ratio(survival: Floats, sequences: int, times: Floats, verify: float) -> float:
    """Tokens a second of the step that has most of them."""
    gained = sequences + np.concatenate([[0.0], np.cumsum(_ranked(survival))])
    taken = times[: len(gained)] + verify * (np.arange(len(gained)) > 0)
    return float((gained / taken).max())


def _lengths(survival: Floats, ranked: Floats, bought: int) -> Ints:
    if not bought:
        return np.zeros(len(survival), dtype=np.int64)
    return np.asarray((survival >= ranked[bought - 1]).sum(1), dtype=np.int64)


def _above(survival: Floats, price: float) -> Floats:
    return np.asarray((survival - price).clip(min=0.0).sum(-1))


def _wide(head: Floats) -> Floats:
    return np.pad(head, ((0, 0), (0, DEPTH - HEAD)))
