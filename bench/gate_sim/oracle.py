"""The best that a step-by-step rule could do if it knew the true survival of every token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.simulation.arrays import Flags, Floats, Ints
from engine.simulation.engine import World
from engine.simulation.rule import Decision, Outcome, View
from engine.simulation.schedules import Source
from engine.simulation.texts import DEPTH, HEAD

_KEEP = 1.0 - 1.0 / 256.0
_FEW = 4
_PACE_FEW, _PACE_MANY = (0.4, 0.5), (0.7, 2.0)
"""Of a request's pace, with few requests at once and with many: what is kept a step, and steps of
the mean pace that it begins with. Each is up to 3 % faster than the other where it is used."""
_PRICES = np.geomspace(0.02, 0.8, 7)
"""Of a token, at which drafts of two sources are compared; the best outcome is taken."""
_COARSE = 3
"""Before the head's pass every third price is tried."""
_COUNTS = 6
"""Numbers of sequences that the head may run for which are tried."""
_MOST_DRAWN = 64
"""Samples of survival for all sequences together."""


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

    Of the surest tokens, every number is considered, so a staircase is filled up to an edge. The
    sequences of a head pass, and the sequences whose draft is then the head's, are the best of
    some sets: those with the most to gain at a few prices of a token.

    It does not know which tokens will be accepted, what comes after this step, or when conditions
    change.

    Args:
        world: What is true.
        lanes: How many.
        source: Where drafts may come from.
    """

    def __init__(self, world: World, lanes: int, source: Source) -> None:
        self._world = world
        self._source: Source = source
        self._speeds: list[dict[int, _Rate]] = [{} for _ in range(lanes)]
        memory = _PACE_FEW if world.course.seats.max() <= _FEW else _PACE_MANY
        self._paces = [_Paces(*memory) for _ in range(lanes)]

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
        depth = HEAD if self._source == "head" else DEPTH
        within = np.arange(depth) < room[:, None]
        suffix = truth.suffix[positions, :depth] * within * (self._source != "head")
        times, alone = self._times(view, lane, len(at))
        verify = self._verify(view, lane, len(at))
        speed = self._speeds[lane].setdefault(int(course.condition[view.stage[lane]]), _Rate(_KEEP))
        worth = speed.value * inside if speed.steps else _best_ratio(suffix, len(at), times, verify)
        market = _Market(times, verify, worth)
        drafts, head_seconds = suffix, 0.0
        wanted = from_head = np.zeros(len(at), dtype=np.bool_)
        if self._source != "suffix":
            head = _wide(truth.head[positions], depth) * within
            before = _wide(truth.head_before[positions], depth) * within[:, None]
            passes = course.slow[view.stage[lane]] * self._world.curve.head
            wanted = market.wants(suffix * counts, before * counts[:, None], passes)
            if wanted.any():
                head_seconds = float(passes[wanted.sum()])
                from_head = market.better(suffix * counts, head * counts, wanted)
                drafts = np.where(from_head[:, None], head, suffix)
        lengths = market.buy(drafts * counts)
        bought = (drafts * (np.arange(depth) < lengths[:, None])).sum(1)
        # Prompts of others take their time whatever these sequences draft, so it is left out.
        drafted = int(lengths.sum())
        seconds = float(alone[drafted]) + (verify if drafted else 0.0) + head_seconds
        speed.learn(len(at) + float(bought.sum()), seconds * len(at))
        self._paces[lane].learn(requests, (1.0 + bought).tolist())
        return _Chosen(lengths, from_head, int(wanted.sum()))

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

    def __init__(self, keep: float, prior: float) -> None:
        self._keep, self._prior = keep, prior
        self._mean = _Rate(_KEEP, 1.0, 1.0)
        self._own: dict[int, _Rate] = {}

    def counts(self, requests: Sequence[int]) -> Floats:
        """By request, what one of its tokens counts."""
        own = [self._of(request) for request in requests]
        mean, prior = self._mean.value, self._prior
        return np.array(
            [mean * (rate.steps + prior) / (rate.tokens + prior * mean) for rate in own]
        )

    def learn(self, requests: Sequence[int], tokens: Sequence[float]) -> None:
        self._mean.learn(sum(tokens), len(tokens))
        for request, count in zip(requests, tokens, strict=True):
            self._of(request).learn(count, 1.0)

    def _of(self, request: int) -> _Rate:
        return self._own.setdefault(request, _Rate(self._keep))


@dataclass(frozen=True, slots=True)
class _Chosen:
    lengths: Ints
    from_head: Flags
    head_sequences: int


@dataclass(frozen=True, slots=True)
class _Market:
    """What time costs in a step.

    Survivals are (..., sequences, depth), each token weighted by what it counts.

    Attributes:
        times: Seconds of the step by draft tokens, without `verify`.
        verify: What any of them adds.
        worth: Tokens that a second is worth.
    """

    times: Floats
    verify: float
    worth: float

    def buy(self, survival: Floats) -> Ints:
        """Tokens of each sequence in the set that is worth most; (sequences,)."""
        count = int(self._values(survival).argmax())
        surest = np.argsort(-survival, axis=None, kind="stable")[:count]
        return np.bincount(surest // survival.shape[1], minlength=len(survival))

    def wants(self, suffix: Floats, before: Floats, passes: Floats) -> Flags:
        """The sequences that the head is to run for, from what is known before its pass.

        Args:
            suffix: Of the suffix drafts.
            before: Samples of the head's; (sequences, DRAWS, depth).
            passes: Seconds of a pass, by sequences.
        """
        sequences = len(suffix)
        # Many sequences average by themselves.
        draws = before[:, : max(1, _MOST_DRAWN // sequences)].swapaxes(0, 1)
        best, wanted = self._value(suffix), np.zeros(sequences, dtype=np.bool_)
        for price in _PRICES[::_COARSE]:
            gains = (_above(draws, price) - _above(suffix, price)).clip(min=0.0)
            order = np.argsort(-gains.mean(0), kind="stable")
            rank = np.empty_like(order)
            rank[order] = np.arange(sequences)
            most = int((gains.mean(0) > 0.0).sum())
            counts = np.unique(np.geomspace(1, max(1, most), _COUNTS).astype(np.int64))
            for count in counts:
                runs = (rank < count) & (gains > 0.0)
                mixed = np.where(runs[..., None], draws, suffix)
                value = float(self._value(mixed).mean()) - self.worth * passes[count]
                if value > best:
                    best, wanted = value, rank < count
        return wanted

    def better(self, suffix: Floats, head: Floats, wanted: Flags) -> Flags:
        """The sequences among those that the head ran for whose draft is to be the head's."""
        mixes = np.array([wanted & (_above(head, p) > _above(suffix, p)) for p in _PRICES])
        values = self._value(np.where(mixes[..., None], head, suffix))
        return np.asarray(mixes[int(values.argmax())])

    def _value(self, survival: Floats) -> Floats:
        """Tokens that the best set is worth beyond its time; (...)."""
        return np.asarray(self._values(survival).max(-1))

    def _values(self, survival: Floats) -> Floats:
        """The same of the surest 0, 1, 2, ... tokens; (..., tokens + 1)."""
        ranked = -np.sort(-survival.reshape(*survival.shape[:-2], -1), axis=-1)
        gained = np.cumsum(np.where(ranked > 0.0, ranked, -np.inf), axis=-1)
        spent = self.worth * (self.times[1 : ranked.shape[-1] + 1] - self.times[0] + self.verify)
        return np.concatenate([np.zeros((*gained.shape[:-1], 1)), gained - spent], axis=-1)


def _best_ratio(survival: Floats, sequences: int, times: Floats, verify: float) -> float:
    """Tokens a second of the step that has most of them."""
    ranked = np.sort(survival, axis=None)[::-1]
    gained = sequences + np.concatenate([[0.0], np.cumsum(ranked)])
    taken = times[: len(gained)] + verify * (np.arange(len(gained)) > 0)
    return float((gained / taken).max())


def _above(survival: Floats, price: float) -> Floats:
    return np.asarray((survival - price).clip(min=0.0).sum(-1))


def _wide(head: Floats, depth: int) -> Floats:
    """Padded with tokens that never survive; (..., depth)."""
    return np.concatenate([head, np.zeros((*head.shape[:-1], depth - HEAD))], axis=-1)
