"""Acceptance as a random process: texts that copy and write in turns, and drafters of them.

Each token has its own chance to be drafted correctly, and the outcome is drawn from it. So the true
survival is known, and a drafter states it with an error.
"""

from dataclasses import dataclass, replace

import numpy as np

from engine.simulation.arrays import Flags, Floats, Ints
from engine.simulation.texts import DEPTH, DRAWS, HEAD, Offers, Texts, Truth, runs_of

_CONCENTRATION = 6.0
"""Of the beta distribution that chances of single tokens come from: most are near 0 or 1."""
_FIRST_MATCH = 2
"""Tokens of a copy that have to be written before the suffix source sees it."""
_WRITING_DRAFT = 6.0
"""Mean tokens that it offers where nothing is copied."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How often drafters are right in a stretch of text.

    Attributes:
        offered: How often the suffix source offers something.
        suffix: Chance of one of its tokens, given that all before were right.
        head: Likewise of the head's, by position; (HEAD,).
        stretch: Mean tokens of the stretch; None where it never ends.
    """

    offered: float
    suffix: float
    head: tuple[float, ...]
    stretch: float | None = None


@dataclass(frozen=True, slots=True)
class Bias:
    """How stated chances differ from true ones, beside noise.

    Attributes:
        shift: Added to the logit: above 0 the drafter is too sure.
        scale: The logit is multiplied by it first: above 1 chances are stated too near 0 or 1.
    """

    shift: float = 0.1
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Process:
    """A kind of traffic.

    Attributes:
        write: The mode that a text begins in.
        copy: The mode that it alternates with; None where it stays in the first.
        head_says: Chances that the head states, where they differ from its true ones; by position.
        suffix_bias: Error of the chances that the suffix source states.
        head_bias: Likewise of the head.
        misjudged: Standard deviation of further error, in logits.
        unlike: Standard deviation between requests, in logits.
        answer_tokens: Mean length.
        prompt_tokens: Mean length of the part of a prompt that is not cached; short, since its
            time is the same for every rule.
        cached_tokens: Mean length of the cached part.
    """

    name: str
    write: Mode
    copy: Mode | None = None
    head_says: tuple[float, ...] | None = None
    suffix_bias: Bias = Bias()
    head_bias: Bias = Bias()
    misjudged: float = 0.25
    unlike: float = 0.4
    answer_tokens: float = 200.0
    prompt_tokens: float = 100.0
    cached_tokens: float = 300.0

    def write_texts(self, count: int, seed: int) -> Texts:
        """Draw texts; lengths depend on nothing but `count`, `seed` and their means."""
        rng = np.random.default_rng([seed, 0])
        lengths = _lengths(rng, self.answer_tokens, count)
        prompts = _lengths(rng, self.prompt_tokens, count)
        cached = _lengths(rng, self.cached_tokens, count)
        own = np.repeat(rng.normal(0.0, self.unlike, count), lengths)
        stretches = _Stretches.drawn(self, len(own), rng)
        suffix, suffix_right, tokens = _suffix(self, stretches, own, rng)
        stated = misstate(suffix, self.suffix_bias, self.misjudged, rng)
        head, before, confidence = _head(self, stretches, own, rng)
        hits = rng.random(head.shape) < head
        offered = np.arange(DEPTH) < tokens[:, None]
        return Texts(
            Offers(tokens, np.cumprod(stated, axis=1, dtype=np.float64) * offered, confidence),
            Truth(
                suffix=np.cumprod(suffix, axis=1, dtype=np.float64) * offered,
                head=np.cumprod(head, axis=1, dtype=np.float64),
                head_before=before,
                suffix_right=np.minimum(suffix_right, tokens),
                head_right=runs_of(hits.astype(np.int64)),
            ),
            lengths,
            prompts,
            cached,
        )


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Which positions are copied, and where that changes."""

    copied: Flags
    changed: Flags

    @staticmethod
    def drawn(process: Process, positions: int, rng: np.random.Generator) -> "_Stretches":
        copied = np.zeros(positions, dtype=np.bool_)
        if process.copy is not None:
            means = [process.write.stretch, process.copy.stretch]
            assert None not in means
            turns = positions // 2 + 1
            runs = np.stack([rng.geometric(1.0 / float(mean or 1), turns) for mean in means], 1)
            copied = np.repeat(np.tile([False, True], turns), runs.ravel())[:positions]
        changed = np.concatenate([[False], copied[1:] != copied[:-1]])
        return _Stretches(copied, changed)

    def pick(self, process: Process, of_write: Floats, of_copy: Floats) -> Floats:
        """What holds at each position, given what would hold in each mode."""
        if process.copy is None:
            return of_write
        shape = (-1,) + (1,) * (of_write.ndim - 1)
        return np.where(self.copied.reshape(shape), of_copy, of_write)


def _suffix(
    process: Process, stretches: _Stretches, own: Floats, rng: np.random.Generator
) -> tuple[Floats, Ints, Ints]:
    """Chances of the tokens from each position on, how many are correct, and how many are offered.

    A draft that runs past the end of its stretch is wrong from there on, so the chance of each
    token but the first includes that the stretch goes on.
    """
    positions = len(own)
    drawn_at = rng.random(positions)
    by_mode = []
    for mode in (process.write, process.copy or process.write):
        ends = 0.0 if mode.stretch is None or process.copy is None else 1.0 / mode.stretch
        chances = draw_chances(np.full(positions, mode.suffix), own, rng)
        by_mode.append((chances, _from_each(chances, DEPTH) * _staying(ends)))
    chance = stretches.pick(process, by_mode[0][0], by_mode[1][0])
    windows = stretches.pick(process, by_mode[0][1], by_mode[1][1])
    right = np.minimum(_distance(drawn_at >= chance, skip=0), _distance(stretches.changed, skip=1))
    return windows, right, _offered(process, stretches, rng)


def _offered(process: Process, stretches: _Stretches, rng: np.random.Generator) -> Ints:
    positions = len(stretches.copied)
    writing = rng.geometric(1.0 / _WRITING_DRAFT, positions).clip(max=DEPTH)
    tokens = np.where(rng.random(positions) < process.write.offered, writing, 0)
    if process.copy is not None:
        fresh = np.lib.stride_tricks.sliding_window_view(
            np.concatenate([np.ones(_FIRST_MATCH - 1, dtype=np.bool_), stretches.changed]),
            _FIRST_MATCH,
        ).any(axis=1)
        found = (rng.random(positions) < process.copy.offered) & ~fresh
        tokens = np.where(stretches.copied, np.where(found, DEPTH, 0), tokens)
    return tokens.astype(np.int64)


def _head(
    process: Process, stretches: _Stretches, own: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Chances of the head's tokens, samples of their survival, and its confidence."""
    assert len(process.write.head) == HEAD
    shape = (len(own), HEAD)
    means = stretches.pick(
        process,
        np.broadcast_to(np.array(process.write.head), shape),
        np.broadcast_to(np.array((process.copy or process.write).head), shape),
    )
    chances = draw_chances(means, own[:, None], rng)
    believed = chances
    if process.head_says is not None:
        said = np.broadcast_to(np.array(process.head_says), shape)
        believed = draw_chances(said, own[:, None], rng)
    confidence = misstate(believed, process.head_bias, process.misjudged, rng)
    return chances, draw_survival(means, own, rng), confidence


def misstate(chances: Floats, bias: Bias, misjudged: float, rng: np.random.Generator) -> Floats:
    """Chances as a drafter states them."""
    odds = (chances / (1.0 - chances)) ** bias.scale
    return moved(odds / (1.0 + odds), rng.normal(bias.shift, misjudged, chances.shape))


def draw_chances(means: Floats, own: Floats, rng: np.random.Generator) -> Floats:
    """Chances of single tokens around their means, shifted by each request's own logit."""
    shifted = moved(means, own)
    return rng.beta(_CONCENTRATION * shifted, _CONCENTRATION * (1.0 - shifted)).clip(0.001, 0.999)


def draw_survival(means: Floats, own: Floats, rng: np.random.Generator) -> Floats:
    """Samples of the survival of the head's tokens; (positions, DRAWS, HEAD)."""
    wide = np.broadcast_to(means[:, None, :], (len(own), DRAWS, HEAD))
    return np.cumprod(draw_chances(wide, own[:, None, None], rng), axis=2, dtype=np.float64)


def moved(chances: Floats, by: Floats) -> Floats:
    """Chances, shifted in logits."""
    return np.asarray(1.0 / (1.0 + (1.0 / chances - 1.0) * np.exp(-by)))


def _from_each(chances: Floats, depth: int) -> Floats:
    padded = np.concatenate([chances, np.full(depth - 1, 0.5)])
    return np.lib.stride_tricks.sliding_window_view(padded, depth)


def _staying(ends: float) -> Floats:
    return np.concatenate([[1.0], np.full(DEPTH - 1, 1.0 - ends)])


def _distance(flags: Flags, *, skip: int) -> Ints:
    """Positions from each one to the next flag, `skip` positions ahead at least; DEPTH if far."""
    positions = len(flags)
    at = np.where(flags, np.arange(positions), positions + DEPTH)
    following = np.minimum.accumulate(at[::-1])[::-1]
    following = np.concatenate([following, np.full(skip, positions + DEPTH)])[skip:]
    return np.asarray(np.minimum(following - np.arange(positions), DEPTH))


def _lengths(rng: np.random.Generator, mean: float, count: int) -> Ints:
    """Mostly short and some long; never below 8 tokens nor above four times the mean."""
    least = min(8.0, mean)
    return (least + rng.exponential(mean - least, count)).clip(max=4 * mean).astype(np.int64)


CHAT = Process("chat", Mode(offered=0.3, suffix=0.35, head=(0.72, 0.6, 0.5)))
EDIT = Process(
    "edit",
    write=Mode(offered=0.35, suffix=0.35, head=(0.6, 0.45, 0.35), stretch=40.0),
    copy=Mode(offered=0.97, suffix=0.97, head=(0.8, 0.65, 0.55), stretch=40.0),
    cached_tokens=2_000.0,
)
CREATIVE = Process("creative", Mode(offered=0.25, suffix=0.2, head=(0.35, 0.2, 0.15)))
SHORT = Process("short", CHAT.write, answer_tokens=24.0, prompt_tokens=200.0)
SURE = Process("sure", Mode(offered=0.8, suffix=0.8, head=(0.8, 0.8, 0.8)))
UNSURE = Process(
    "unsure", Mode(offered=0.8, suffix=0.2, head=(0.2, 0.2, 0.2)), head_says=(0.8, 0.8, 0.8)
)
"""What `SURE` becomes when the text changes and the head does not notice."""

EDIT_TOO_SURE = replace(EDIT, name="edit-too-sure", suffix_bias=Bias(0.9))
"""The suffix source states 1.5 times the tokens that are right."""
EDIT_TOO_MODEST = replace(EDIT, name="edit-too-modest", suffix_bias=Bias(-0.6))
"""It states two thirds of them."""
EDIT_SHARP = replace(EDIT, name="edit-sharp", suffix_bias=Bias(-0.4, scale=1.5))
"""It is too sure of likely tokens, and too modest about unlikely ones."""
WARM = Process(
    "warm",
    Mode(offered=0.3, suffix=0.21, head=(0.55, 0.45, 0.35)),
    head_says=CHAT.write.head,
    suffix_bias=Bias(0.2),
)
"""Chat at temperature 1, whose head states what it does at temperature 0: 1.6 times too much."""
CHAT_TOO_MODEST = replace(CHAT, name="chat-too-modest", head_bias=Bias(-1.0))
"""The head states three fifths of the tokens that are right."""
