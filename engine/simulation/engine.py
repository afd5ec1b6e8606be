"""A simulated engine: requests arrive, are prefilled, decode and end, on a simulated clock."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from engine.simulation.arrays import Flags, Floats, Ints
from engine.simulation.course import Course
from engine.simulation.curve import Curve
from engine.simulation.rule import Decision, Outcome, Rule, View
from engine.simulation.texts import DEPTH, Library

_PREFILL_TOKENS = 2048
"""Tokens that a step computes at most, before drafts: vLLM's `max_num_batched_tokens`."""
_ALWAYS = np.iinfo(np.int64).max // 4
_NOISE_STEPS = 4096
_NOISE = 0.04
_HICCUP_CHANCE, _HICCUP = 0.01, 1.0


@dataclass(frozen=True, slots=True)
class Pause:
    """What the device idles before a step that waits for the tokens of the last one.

    Attributes:
        step: Seconds.
        sequence: Seconds for each sequence.
    """

    step: float = 0.0
    sequence: float = 0.0


@dataclass(frozen=True, slots=True)
class World:
    """What is the same for every rule."""

    curve: Curve
    library: Library
    course: Course
    pause: Pause = Pause()


@dataclass(frozen=True, slots=True)
class Record:
    """A run; all arrays are (steps, lanes).

    Attributes:
        before: Tokens that a lane had generated before the step.
        tokens: Expected tokens of the step: a draft counts the sum of its survival. The mean is
            that of the tokens that were accepted, with a fraction of their noise.
        seconds: Of the step and the head's pass, as the curve has them: without noise.
        request_seconds: The same times the requests in the system, waiting ones included.
        drafted: Draft tokens.
        accepted: Draft tokens that were correct.
        head_passes: 1 where the head ran.
    """

    before: Ints
    tokens: Floats
    seconds: Floats
    request_seconds: Floats
    drafted: Ints
    accepted: Ints
    head_passes: Ints

    def speed(self, begin: int, end: int) -> Floats:
        """Return tokens a second of a request, queueing included; (lanes,).

        In a closed loop that is goodput over the number of clients; in an open one, where every
        rule that keeps up has the same goodput, it is the inverse of what clients wait for.

        Args:
            begin: Tokens after which it counts.
            end: Tokens up to which it counts; every rule has generated the same texts by then.
        """
        counts = (self.before >= begin) & (self.before < end)
        seconds = (self.request_seconds * counts).sum(0)
        return np.asarray((self.tokens * counts).sum(0) / seconds)

    def lanes(self, part: slice) -> "Record":
        """Return the record of some of the lanes."""
        return Record(
            before=self.before[:, part],
            tokens=self.tokens[:, part],
            seconds=self.seconds[:, part],
            request_seconds=self.request_seconds[:, part],
            drafted=self.drafted[:, part],
            accepted=self.accepted[:, part],
            head_passes=self.head_passes[:, part],
        )


class LaunchRule(Protocol):
    """Chooses which steps are launched before the tokens of the last one are known."""

    def choose(self, sequences: Ints) -> Flags:
        """Return the choice for the next step of each lane; (lanes,).

        Args:
            sequences: That the last step had; (lanes,).
        """

    def observe(self, ahead: Flags, sequences: Ints, tokens: Ints, seconds: Floats) -> None:
        """Learn from a step; all (lanes,).

        Args:
            ahead: Whether it was launched ahead.
            sequences: Requests that got tokens.
            tokens: What they got.
            seconds: Measured, the pause before it and the head's pass included.
        """


class AllWait:
    """No step is launched ahead."""

    def choose(self, sequences: Ints) -> Flags:
        """Return False for each lane."""
        return np.zeros(len(sequences), dtype=np.bool_)

    def observe(self, ahead: Flags, sequences: Ints, tokens: Ints, seconds: Floats) -> None:
        """Learn nothing."""


def simulate(world: World, rule: Rule, seeds: Ints, launch: LaunchRule | None = None) -> Record:
    """Simulate a rule until every lane has generated the tokens of its course.

    Args:
        world: Machine, texts and course.
        rule: A fresh one, for as many lanes.
        seeds: For each lane, which of the library's seeds it has; (lanes,). Lanes of one seed have
            the same requests, arrivals and noise.
        launch: Chooses the steps that are launched ahead; None: none are.
    """
    batch = _Batch(world, seeds, launch or AllWait())
    rows = []
    while not batch.is_over:
        rows.append(batch.advance(rule))
    return Record(*(np.array(column) for column in zip(*rows, strict=True)))


@dataclass(frozen=True, slots=True)
class _Last:
    """The last step; (lanes, sequences) but for `ahead`."""

    positions: Ints
    requests: Ints
    lengths: Ints
    emitted: Ints
    ahead: Flags

    @classmethod
    def none(cls, shape: tuple[int, int]) -> "_Last":
        zeros = np.zeros(shape, dtype=np.int64)
        return cls(zeros, zeros - 1, zeros, zeros, np.zeros(shape[0], dtype=np.bool_))

    @property
    def sequences(self) -> Ints:
        """How many got tokens; (lanes,)."""
        return np.asarray((self.emitted > 0).sum(1))

    def seen_ahead(self, view: View, ahead: Flags) -> View:
        """Return a view in which lanes that are ahead do not know this step's tokens."""
        if not ahead.any():
            return view
        rows = ahead[:, None]
        # While the first step of a row is launched nothing was drafted for it.
        goes_on = view.decoding & (self.requests == view.requests) & (self.positions > 0)
        goes_on &= self.ahead[:, None]
        return replace(
            view,
            positions=np.where(rows, self.positions, view.positions),
            # The tokens of the last step are not known to be fewer than expected.
            room=np.where(rows, np.where(goes_on, view.room, 0), view.room),
            skip=np.where(rows & view.decoding, self.lengths + 1, 0),
            ahead=ahead,
        )


class _Batch:
    """Sequences of all lanes, and the requests in them."""

    def __init__(self, world: World, seeds: Ints, launch: LaunchRule) -> None:
        self._world = world
        self._launch = launch
        self._seeds = seeds
        lanes, width = len(seeds), int(world.course.seats.max())
        self._shape = (lanes, width)
        self._columns = np.arange(width)
        self._step = 0
        self._emitted = np.zeros(lanes, dtype=np.int64)
        self._stage = world.course.stage(self._emitted)
        self._serial = np.broadcast_to(self._columns, self._shape).copy()
        self._begins = world.library.texts.begins
        self._of_seed = self._begins[world.library.first]
        self._clock = np.zeros(lanes)
        self._arrivals, self._noise = _chance(world, seeds)
        self._last = _Last.none(self._shape)
        self._arrived = np.zeros(lanes, dtype=np.int64)
        self._started = np.full(lanes, int(world.course.seats[0]), dtype=np.int64)
        self._begin_in_the_middle()

    @property
    def is_over(self) -> bool:
        """Whether every lane has generated what the course asks for."""
        return bool((self._emitted >= self._world.course.tokens).all())

    def advance(self, rule: Rule) -> tuple[Floats | Ints, ...]:
        """Simulate a step and return its values for `Record`."""
        self._stage = self._world.course.stage(self._emitted)
        self._let_in()
        prompt = self._prefill()
        ahead = self._launch.choose(self._last.sequences)
        now = self._view(prompt)
        view = self._last.seen_ahead(now, ahead)
        decision = rule.decide(view)
        assert (decision.lengths <= view.room).all(), "a draft is longer than what is left"
        truth = self._world.library.texts.truth
        head_right = truth.head_right[now.positions]
        of_index = (truth.suffix_right[view.positions] - view.skip).clip(min=0)
        # Behind a step that yields something else than was expected, a draft is void.
        of_index *= ~ahead[:, None] | (self._last.emitted == view.skip)
        right = np.where(decision.from_head, head_right, of_index)
        accepted = np.minimum(decision.lengths, right)
        done = (prompt > 0) & (prompt == self._prompt)
        emitted = np.where(view.decoding, 1 + accepted, done.astype(np.int64))
        seconds, head_seconds, tokens = self._times(view, decision)
        sequences = (emitted > 0).sum(1)
        pause = self._world.pause
        seconds += np.where(ahead, 0.0, pause.step + pause.sequence * self._last.sequences)
        noise = self._noise[self._seeds, self._step % _NOISE_STEPS]
        rule.observe(
            view,
            decision,
            Outcome(
                emitted=emitted,
                head_right=np.minimum(head_right, emitted),
                tokens=tokens,
                step_seconds=seconds * noise,
                head_seconds=head_seconds * noise,
            ),
        )
        self._launch.observe(ahead, sequences, emitted.sum(1), (seconds + head_seconds) * noise)
        self._last = _Last(now.positions, now.requests, decision.lengths, emitted, ahead)
        inside = (self._left > 0).sum(1) + view.waiting
        took = seconds + head_seconds
        by_chance = np.where(ahead, accepted.sum(1), self._expected(view, decision))
        expected = emitted.sum(1) - accepted.sum(1) + by_chance
        self._prompt -= prompt
        self._unread = self._prompt.copy()
        self._left -= emitted
        self._clock += took
        self._step += 1
        before, self._emitted = self._emitted, self._emitted + emitted.sum(1)
        return (
            before,
            expected.astype(np.float64),
            took,
            took * inside,
            decision.lengths.sum(1),
            accepted.sum(1),
            (decision.head_sequences > 0).astype(np.int64),
        )

    def _begin_in_the_middle(self) -> None:
        """Fill every seat with a request at a random point of its answer."""
        lengths = self._lengths()
        width = self._shape[1]
        shares = np.array([np.random.default_rng([s, 2]).random(width) for s in self._seeds])
        self._left = 1 + (shares * lengths).astype(np.int64).clip(max=lengths - 1)
        self._left *= self._columns < int(self._world.course.seats[0])
        self._prompt = np.zeros(self._shape, dtype=np.int64)
        self._unread = self._prompt.copy()

    def _lengths(self) -> Ints:
        return np.asarray(self._world.library.texts.lengths[self._texts()])

    def _texts(self) -> Ints:
        library = self._world.library
        return np.asarray(library.first[self._seeds][:, None] + self._serial % library.count)

    def _let_in(self) -> None:
        """Remove requests beyond the seats, and give free seats to waiting ones."""
        closed = self._columns >= self._world.course.seats[self._stage][:, None]
        self._left[closed] = 0
        self._prompt[closed] = 0
        self._receive()
        free = (self._left == 0) & ~closed
        rank = np.cumsum(free, axis=1) - 1
        starts = free & (rank < self._queue()[:, None])
        self._serial = np.where(starts, self._started[:, None] + rank, self._serial)
        self._started += starts.sum(1)
        texts = self._world.library.texts
        self._left = np.where(starts, self._lengths(), self._left)
        self._prompt = np.where(starts, texts.prompts[self._texts()], self._prompt)

    def _queue(self) -> Ints:
        if self._arrivals is None:
            return np.full(len(self._seeds), _ALWAYS)
        # Requests that were there at the start have no arrival time.
        return self._arrived + int(self._world.course.seats[0]) - self._started

    def _receive(self) -> None:
        """Count arrivals up to now; a lane without requests waits for the next arrival."""
        if self._arrivals is None:
            return
        lanes = np.arange(len(self._seeds))
        empty = ((self._left > 0).sum(1) == 0) & (self._queue() == 0)
        following = self._arrivals[lanes, self._arrived]
        self._clock = np.where(empty, np.maximum(self._clock, following), self._clock)
        while True:
            more = self._arrivals[lanes, self._arrived] <= self._clock
            if not more.any():
                return
            self._arrived += more

    def _prefill(self) -> Ints:
        """Prompt tokens that each sequence computes; the first sequences come first."""
        room = _PREFILL_TOKENS - ((self._left > 0) & (self._prompt == 0)).sum(1)
        before = np.cumsum(self._prompt, axis=1) - self._prompt
        return np.asarray((room[:, None] - before).clip(0, self._prompt))

    def _view(self, prompt: Ints) -> View:
        library = self._world.library
        decoding = (self._left > 0) & (self._prompt == 0)
        texts = self._texts()
        position = library.texts.lengths[texts] - self._left
        base = library.base[self._seeds, self._world.course.phase[self._stage]]
        positions = base[:, None] + self._begins[texts] - self._of_seed[self._seeds][:, None]
        before = library.texts.prompts[texts] + library.texts.cached[texts]
        context = np.where(decoding | (prompt > 0), before + position, 0)
        waiting = np.zeros_like(self._started) if self._arrivals is None else self._queue()
        return View(
            stage=self._stage,
            decoding=decoding,
            positions=np.where(decoding, positions + position, 0),
            room=np.where(decoding, self._left - 1, 0).clip(max=DEPTH),
            requests=self._serial,
            prefilling=prompt > 0,
            prompt_tokens=prompt.sum(1),
            unread_sequences=(self._unread > 0).sum(1),
            unread_tokens=self._unread.sum(1).clip(max=_PREFILL_TOKENS),
            context=context.sum(1),
            waiting=waiting,
            offers=library.texts.offers,
            now=np.where(decoding, positions + position, 0),
            ahead=np.zeros(len(self._seeds), dtype=np.bool_),
            skip=np.zeros(self._shape, dtype=np.int64),
        )

    def _expected(self, view: View, decision: Decision) -> Floats:
        """Expected accepted tokens of the drafts; (lanes,)."""
        library = self._world.library
        head_lengths = np.where(decision.from_head, decision.lengths, 0)
        suffix = library.suffix_sum[view.positions, decision.lengths - head_lengths]
        return np.asarray((suffix + library.head_sum[view.positions, head_lengths]).sum(1))

    def _times(self, view: View, decision: Decision) -> tuple[Floats, Floats, Ints]:
        course, curve = self._world.course, self._world.curve
        sequences = (view.decoding | view.prefilling).sum(1)
        decoding = view.decoding.sum(1)
        tokens = decoding + decision.lengths.sum(1) + view.prompt_tokens
        plain = curve.seconds(sequences, sequences, view.context)
        full = curve.seconds(sequences, tokens, view.context)
        slow, steep = course.slow[self._stage], course.steep[self._stage]
        verify = np.where(decision.lengths.any(axis=1), curve.verify[decoding], 0.0)
        seconds = slow * (plain + steep * (full - plain + verify))
        head = np.where(decision.head_sequences > 0, curve.head[decision.head_sequences], 0.0)
        return seconds, slow * head, tokens


def _chance(world: World, seeds: Ints) -> tuple[Floats | None, Floats]:
    """Arrivals of each lane, and the noise of each seed's measurements; all finite."""
    course = world.course
    distinct = [np.random.default_rng([seed, 1]) for seed in range(int(seeds.max()) + 1)]
    noise = np.array(
        [
            rng.lognormal(-(_NOISE**2) / 2, _NOISE, _NOISE_STEPS)
            + _HICCUP * rng.random(_NOISE_STEPS) * (rng.random(_NOISE_STEPS) < _HICCUP_CHANCE)
            for rng in distinct
        ]
    )
    if course.per_second is None:
        return None, noise
    # Every request has at least one token.
    most = course.tokens + int(course.seats.max()) * DEPTH + 1
    gaps = np.array([rng.exponential(1.0 / course.per_second, most) for rng in distinct])
    arrivals = np.cumsum(gaps, axis=1)
    arrivals[:, -1] = np.inf
    return arrivals[seeds], noise
