"""The engine's own policy under the simulator: the one file here that knows `engine.policy`.

The order of a step is that of `engine/drafting/core/batch`, without what needs token ids: a
prediction, vLLM's own drafter, and the index going on behind the head's tokens.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from engine.policy import ForwardDrafter, Gate, Load, Proposals, paying, worth
from engine.simulation.arrays import Ints
from engine.simulation.curve import Curve
from engine.simulation.engine import World
from engine.simulation.rule import Decision, Outcome, View
from engine.simulation.schedules import Source
from engine.simulation.texts import DEPTH

_PROBE_STEPS = 16
"""As in `engine/drafting/drafter.py`: how often the head runs although it does not pay."""

Survival = list[float]
RunHead = Callable[[Sequence[int]], list[Survival]]
"""Runs the head for some of a step's sequences and returns its confidence in its tokens."""

_OTHER = 0
"""Token id that stands for anything that the head did not propose; it proposes 1, 2, 3, ..."""


@dataclass(slots=True)
class _Sequence:
    """A sequence of a step: the best draft so far, and whose it is."""

    room: int
    best: Survival
    proposals: Proposals | None
    from_head: bool = False
    drafted: int = 0

    def prefer(self, survival: Survival, price: float) -> None:
        """Take the head's tokens if they are worth more."""
        survival = survival[: self.room]
        if worth(survival, price) > worth(self.best, price):
            self.best, self.from_head = survival, True


class Specgate:
    """A gate for each lane, told the result of its step and asked for the next.

    It has the same inputs as in a worker: the profile of an idle machine, the drafters' stated
    survival, the accepted tokens, and noisy step times. All of them are passed in; the policy reads
    no clock. The gate's own time is measured here, around its calls.

    Args:
        world: Only the machine's profile, the largest batch and the length of the head's proposals
            are taken from it.
        lanes: How many.
        source: Where drafts may come from.
        on_device: Whether the head drafts on the device in steps that are launched ahead; otherwise
            it does not draft in these.
        most_rows: Most next tokens and drafts of a step, as a worker bounds them; by default any.

    Attributes:
        spent_ns: Of each step of each lane, the gate's own time.
        sequences: How many sequences it decided for, in the same order.
    """

    def __init__(
        self,
        world: World,
        lanes: int,
        source: Source,
        *,
        on_device: bool = False,
        most_rows: int | None = None,
    ) -> None:
        most_sequences = int(world.course.seats.max())
        self.spent_ns: list[int] = []
        self.sequences: list[int] = []
        self._source: Source = source
        self._most_rows = most_rows
        self._on_device = on_device and source != "suffix"
        self._read = [0] * lanes
        self._head_tokens = world.library.texts.offers.confidence.shape[1]
        head = 0 if source == "suffix" else self._head_tokens
        self._lanes = [_Lane(world.curve, most_sequences, head) for _ in range(lanes)]

    def decide(self, view: View) -> Decision:
        """Ask the gate of each lane."""
        lengths = np.zeros(view.decoding.shape, dtype=np.int64)
        from_head = np.zeros(view.decoding.shape, dtype=np.bool_)
        head_sequences = np.zeros(len(self._lanes), dtype=np.int64)
        for number, lane in enumerate(self._lanes):
            at = np.flatnonzero(view.decoding[number])
            positions = view.positions[number, at]
            lane.begin(_load(view, number, len(at), self._read[number], self._most_rows))
            sequences = self._sequences(view, number, at, lane)
            if view.ahead[number]:
                head_sequences[number] = lane.choose_ahead(sequences, on_device=self._on_device)
            else:
                head_sequences[number] = lane.choose(sequences, _head_at(view, positions))
            lengths[number, at] = [sequence.drafted for sequence in sequences]
            from_head[number, at] = [sequence.from_head for sequence in sequences]
            self.spent_ns.append(lane.take_spent_ns())
            self.sequences.append(len(sequences))
        return Decision(lengths, from_head, head_sequences)

    def observe(self, view: View, decision: Decision, outcome: Outcome) -> None:
        """Report the step to the gate of each lane."""
        accepted = np.where(view.decoding, outcome.emitted - 1, 0)
        self._read = view.prompt_tokens.tolist()
        for number, lane in enumerate(self._lanes):
            got = np.flatnonzero(outcome.emitted[number])
            lane.observe(
                int(outcome.tokens[number]),
                int(view.context[number]),
                float(outcome.step_seconds[number]),
                verifying=len(got) if decision.lengths[number].any() else 0,
            )
            if decision.head_sequences[number]:
                lane.observe_head(
                    int(decision.head_sequences[number]), float(outcome.head_seconds[number])
                )
            lane.learn_head(
                got.tolist(),
                outcome.emitted[number, got].tolist(),
                outcome.head_right[number, got].tolist(),
            )
            if view.ahead[number]:
                made = np.flatnonzero(decision.from_head[number])
                lane.learn_on_device(
                    made.tolist(),
                    decision.lengths[number, made].tolist(),
                    accepted[number, made].tolist(),
                )
            mine = ~decision.from_head[number]
            lane.learn(
                len(got),
                int(outcome.emitted[number].sum()),
                drafted=int(decision.lengths[number].sum()),
                of_index=int(accepted[number, mine].sum()),
            )

    def _sequences(self, view: View, number: int, at: Ints, lane: "_Lane") -> list[_Sequence]:
        offers = view.offers
        rooms, requests = view.room[number, at].tolist(), view.requests[number, at].tolist()
        positions = view.positions[number, at]
        skip = view.skip[number, at]
        offered = np.minimum(offers.suffix_tokens[positions], skip + view.room[number, at]).tolist()
        if self._source == "head":
            offered = [0] * len(rooms)
        stated = offers.suffix[positions].tolist()
        return [
            _Sequence(
                room,
                stated[i][skip[i] : offered[i]],
                lane.proposals(int(at[i]), requests[i]),
            )
            for i, room in enumerate(rooms)
        ]


class _Lane:
    """The policy of one engine, and the value of a head pass for each of its requests."""

    def __init__(self, curve: Curve, most_sequences: int, head_tokens: int) -> None:
        self._gate = Gate(
            step_cost=curve.profile(),
            pass_cost=curve.head_profile(),
            most_sequences=most_sequences,
            longest_draft=DEPTH,
            edges=curve.edges,
        )
        self._head = ForwardDrafter(head_tokens, calibrated=True, probe_steps=_PROBE_STEPS)
        self._known: dict[int, tuple[int, Proposals]] = {}
        self._stated = 0.0
        self._spent_ns = 0

    def take_spent_ns(self) -> int:
        """The gate's own time since the last call."""
        spent, self._spent_ns = self._spent_ns, 0
        return spent

    def proposals(self, at: int, request: int) -> Proposals | None:
        """The head's proposals for the request in a slot; None where there is no head."""
        if not self._head.most:
            return None
        known = self._known.get(at)
        if known is None or known[0] != request:
            known = self._known[at] = (request, self._head.proposals())
        return known[1]

    def observe(self, tokens: int, context_tokens: int, seconds: float, *, verifying: int) -> None:
        began = time.perf_counter_ns()
        self._gate.observe_step(tokens, context_tokens, seconds, verifying)
        self._spent_ns += time.perf_counter_ns() - began

    def observe_head(self, sequences: int, seconds: float) -> None:
        began = time.perf_counter_ns()
        self._gate.observe_head(sequences, seconds)
        self._spent_ns += time.perf_counter_ns() - began

    def learn(self, sequences: int, emitted: int, *, drafted: int, of_index: int) -> None:
        began = time.perf_counter_ns()
        self._gate.learn(sequences, drafted, emitted)
        self._gate.learn_trust(self._stated, of_index)
        self._spent_ns += time.perf_counter_ns() - began

    def learn_head(self, got: Sequence[int], emitted: Sequence[int], right: Sequence[int]) -> None:
        """Score what the head proposed for the sequences that got tokens."""
        for at, tokens, hits in zip(got, emitted, right, strict=True):
            if (known := self._known.get(at)) is not None:
                known[1].learn([*range(1, hits + 1), *[_OTHER] * (tokens - hits)])

    def learn_on_device(
        self, at: Sequence[int], verified: Sequence[int], accepted: Sequence[int]
    ) -> None:
        """Score what the head drafted on the device, as far as it was verified."""
        for slot, length, hits in zip(at, verified, accepted, strict=True):
            if length and (known := self._known.get(slot)) is not None:
                known[1].learn_verified(length, hits)

    def begin(self, load: Load) -> None:
        began = time.perf_counter_ns()
        self._gate.begin(load)
        self._spent_ns += time.perf_counter_ns() - began

    def choose(self, sequences: list[_Sequence], head: RunHead) -> int:
        """Set the draft of each sequence; returns how many sequences the head ran for."""
        price = self._take_from_index(sequences)
        asked = self._head_sequences(sequences, price)
        if asked:
            for at, confidence in zip(asked, head(asked), strict=True):
                proposals = sequences[at].proposals
                assert proposals is not None
                sequences[at].prefer(
                    proposals.propose(range(1, len(confidence) + 1), confidence), price
                )
            price = self._settle(sequences)
        self._cut(sequences, price)
        return len(asked)

    def choose_ahead(self, sequences: list[_Sequence], *, on_device: bool) -> int:
        """As `choose`, for a step before which the head can draft on the device only."""
        price = self._take_from_index(sequences)
        able = [one for one in sequences if one.proposals is not None] if on_device else []
        usual = [one.proposals.usual() for one in able if one.proposals is not None]
        pays = sum(worth(survival, price) for survival in usual) > self._gate.cost_of_pass(
            len(able)
        )
        if able and pays:
            for sequence, survival in zip(able, usual, strict=True):
                sequence.prefer(survival, price)
            price = self._settle(sequences)
        self._cut(sequences, price)
        return len(able) if pays else 0

    def _take_from_index(self, sequences: list[_Sequence]) -> float:
        """Correct what the index states, and return the price of its drafts."""
        floor, trust = self._gate.floor, self._gate.trust
        for sequence in sequences:  # the index stops there by itself
            trusted = [min(1.0, trust * chance) for chance in sequence.best]
            sequence.best = trusted[: paying(trusted, floor)]
        return self._settle(sequences)

    def _cut(self, sequences: list[_Sequence], price: float) -> None:
        for sequence in sequences:
            sequence.drafted = paying(sequence.best, price) if self._gate.buys else 0
        self._stated = sum(
            sum(sequence.best[: sequence.drafted]) / self._gate.trust
            for sequence in sequences
            if not sequence.from_head
        )

    def _settle(self, sequences: list[_Sequence]) -> float:
        survival = np.fromiter(
            chain.from_iterable(sequence.best for sequence in sequences), dtype=np.float64
        )
        began = time.perf_counter_ns()
        price = self._gate.settle(survival)
        self._spent_ns += time.perf_counter_ns() - began
        return price

    def _head_sequences(self, sequences: list[_Sequence], price: float) -> list[int]:
        """The sequences that the head runs for: where it pays for all together, or as a trial."""
        able = [
            at
            for at, sequence in enumerate(sequences)
            if sequence.proposals is not None and sequence.room > 0
        ]
        price, gain, better = self._offer_of_head(sequences, price)
        gains = sorted(((_gain(sequences[at], price), at) for at in able), reverse=True)
        most, best, brings = 0, 0.0, 0.0
        for count, (own, _) in enumerate(gains, 1):
            brings += own
            if own > 0 and (net := brings - self._gate.cost_of_pass(count)) > best:
                most, best = count, net
        chosen = [at for _, at in gains[:most]]
        if not chosen and better and gain > self._gate.cost_of_pass(len(better)):
            chosen = better
        if not self._head.runs(pays=bool(chosen)):
            return []
        return sorted(chosen) if chosen else [able[at] for at in self._head.trial(len(able))]

    def _offer_of_head(
        self, sequences: list[_Sequence], price: float
    ) -> tuple[float, float, list[int]]:
        pool: list[Survival] = []
        better: list[int] = []
        for at, sequence in enumerate(sequences):
            proposals = sequence.proposals
            proposed = [] if proposals is None else proposals.example()[: sequence.room]
            is_better = worth(proposed, price) > worth(sequence.best, price)
            if is_better:
                better.append(at)
            pool.append(proposed if is_better else sequence.best)
        survival = np.fromiter(chain.from_iterable(pool), dtype=np.float64)
        began = time.perf_counter_ns()
        found, gain = self._gate.offer(survival)
        self._spent_ns += time.perf_counter_ns() - began
        return found, gain, better


def _gain(sequence: _Sequence, price: float) -> float:
    assert sequence.proposals is not None
    had = worth(sequence.best, price)
    return sequence.proposals.expected_gain(sequence.room, price, had)


def _load(view: View, number: int, sequences: int, read_tokens: int, most_rows: int | None) -> Load:
    requests = sequences + int(view.unread_sequences[number])
    return Load(
        sequences,
        prefill_tokens=int(view.unread_tokens[number]),
        context_tokens=int(view.context[number]),
        waiting=int(view.unread_sequences[number]),
        read_tokens=read_tokens,
        room_tokens=None if most_rows is None else max(0, most_rows - requests),
    )


def _head_at(view: View, positions: Ints) -> RunHead:
    """The function that runs the head for sequences at these positions."""

    def run(sequences: Sequence[int]) -> list[Survival]:
        found: list[Survival] = view.offers.confidence[positions[list(sequences)]].tolist()
        return found

    return run
