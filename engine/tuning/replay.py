"""Replays measured answers through the simulator: what a variant does at any concurrency.

What the suffix index offers at each place is asked of the index itself. What the head proposes was
recorded where it drafted; elsewhere it is drawn from these places. Its confidence is not recorded:
it is drawn so that it is right on average.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.simulation import (
    DEPTH,
    Curve,
    Floats,
    Ints,
    Offers,
    Scheduled,
    Source,
    Specgate,
    Stage,
    Texts,
    Truth,
    World,
    build_curve,
    build_library,
    course_of,
    fixed,
    simulate,
)
from engine.suffix import SuffixIndex
from engine.tuning.measure import Measurement, Points
from engine.tuning.variants import Variant

_SPREAD = 2.0
"""How much a head knows: its confidence is drawn from a Beta distribution of this weight around the
rate of its place. At 2, confidences around 0.5 have a standard deviation of 0.29."""

_TYPICAL = (0.49, 0.25, 0.13)
"""Survival at the places of a head of specgate's own kind. Source: docs/measurements/heads.md, a
gated head that looks back over 64 tokens, on SmolLM2."""
_TYPICAL_PASS = ((1, 0.1), (16, 0.2))
"""Its time by sequences, in steps of one token: the default of `engine.speculation.head`."""

_INDEX_BYTES = 256 << 20
_TOKENS_A_SEAT = 400
_LEAST_TOKENS = 3_000
_WARM_UP = 0.2
_FREE: Points = [(1, 0.0)]
_NO_HEAD: Points = [(1, 1e-3)]  # a gate wants a time above 0


@dataclass(frozen=True, slots=True)
class Recording:
    """The answers of a workload; without their first tokens, which come with the prompt.

    Attributes:
        lengths: Tokens of each answer, at least one; (answers,).
        offered: How many tokens the index offers at each place; (tokens,).
        survival: What it states of them, 0 beyond; (tokens, DEPTH).
        right: How many of them are right; (tokens,).
    """

    lengths: Ints
    offered: Ints
    survival: Floats
    right: Ints


def record(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> Recording:
    """Ask the suffix index at each place of some answers, in their order.

    Args:
        prompts: Token ids of each prompt.
        answers: Token ids of each answer; those of one token are left out.
    """
    index = SuffixIndex(_INDEX_BYTES, salt=0)
    survival: list[Floats] = []
    offered, right, lengths = [], [], []
    for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        if len(answer) < 2:
            continue
        name = str(number)
        index.start(name, "all", list(prompt))
        index.extend(name, answer[:1])
        for at in range(1, len(answer)):
            draft = index.propose(name, DEPTH)
            row = np.zeros(DEPTH)
            row[: len(draft)] = draft.survival
            survival.append(row)
            offered.append(len(draft))
            right.append(_agreeing(draft.tokens, answer[at:]))
            index.extend(name, answer[at : at + 1])
        index.finish(name, keep=True)
        lengths.append(len(answer) - 1)
    return Recording(np.array(lengths), np.array(offered), np.array(survival), np.array(right))


def _agreeing(draft: Sequence[int], truth: Sequence[int]) -> int:
    pairs = zip(draft, truth, strict=False)
    return next(
        (at for at, (one, other) in enumerate(pairs) if one != other), min(len(draft), len(truth))
    )


@dataclass(frozen=True, slots=True)
class HeadTrace:
    """What a head proposes at each place.

    Attributes:
        right: How many of its tokens are right; (tokens,).
        confidence: What it says of each token, given those before; (tokens, places).
    """

    right: Ints
    confidence: Floats


def head_trace(
    lengths: Ints, steps: Sequence[Sequence[int]], places: int, *, states_confidence: bool
) -> HeadTrace:
    """Spread what was recorded over all places of the answers.

    Args:
        lengths: Of the answers, as in `Recording`.
        steps: Accepted tokens of each step of each answer; answers may be missing at the end.
        places: Longest draft.
        states_confidence: Whether the drafter states its confidence.
    """
    rng = np.random.default_rng(0)
    right = np.full(int(lengths.sum()), -1)
    begins = np.cumsum(lengths) - lengths
    for begin, length, of_answer in zip(begins, lengths, steps, strict=False):
        at = 0
        for accepted in of_answer:
            if at >= length:
                break
            right[begin + at] = min(accepted, places)
            at += 1 + accepted
    known = right[right >= 0]
    drawn = rng.choice(known, len(right)) if len(known) else np.zeros(len(right), dtype=np.int64)
    right = np.where(right >= 0, right, drawn)
    rates = np.array([_rate(known, place) for place in range(places)])
    return HeadTrace(right, _confidence(right, rates, rng, states=states_confidence))


def typical_head(lengths: Ints) -> HeadTrace:
    """Return the trace of a head of typical quality, for an estimate."""
    rng = np.random.default_rng(0)
    survival = np.array(_TYPICAL)
    right = (rng.random((int(lengths.sum()), 1)) < survival).sum(1)
    rates = survival / np.concatenate([[1.0], survival[:-1]])
    return HeadTrace(right, _confidence(right, rates, rng, states=True))


def _rate(right: Ints, place: int) -> float:
    """How often a token is right where all before it are; half an observation of each kind."""
    reached = right >= place
    return float(((right > place).sum() + 0.5) / (reached.sum() + 1.0))


def _confidence(right: Ints, rates: Floats, rng: np.random.Generator, *, states: bool) -> Floats:
    if not states:
        return np.broadcast_to(rates, (len(right), len(rates))).copy()
    places = np.arange(len(rates))
    hit, miss = places < right[:, None], places == right[:, None]
    drawn = rng.beta(_SPREAD * rates + hit, _SPREAD * (1.0 - rates) + miss)
    return np.asarray(drawn.clip(1e-3, 1.0 - 1e-3))


def measured_curve(found: Sequence[Measurement], passes: Points) -> Curve:
    """Return what steps cost here: at each size the least that any worker learnt.

    Other load on the machine only makes a step slower.

    Args:
        found: At least one has a gate.
        passes: Of the head, in milliseconds.
    """
    return build_curve(
        "measured",
        step_ms={1: _least([one.step_ms for one in found])},
        head_ms=passes or _NO_HEAD,
        verify_ms=_least([one.verify_ms for one in found]) or _FREE,
    )


def typical_pass(curve: Curve) -> Curve:
    """Return a curve with the pass of a typical head."""
    step = float(curve.step[1, 1]) * 1e3
    passes = [(sequences, cost * step) for sequences, cost in _TYPICAL_PASS]
    head = build_curve("head", step_ms={1: [(1, step)]}, head_ms=passes).head
    return Curve("measured", curve.step, curve.context_seconds, head, curve.verify, curve.edges)


def _least(curves: Sequence[Points]) -> Points:
    by_size: dict[int, list[float]] = {}
    for curve in curves:
        for at, ms in curve:
            by_size.setdefault(at, []).append(ms)
    sizes = sorted(by_size)
    # A size that took longer than a larger one gets the larger one's time.
    rising = np.minimum.accumulate([min(by_size[size]) for size in reversed(sizes)])[::-1]
    return list(zip(sizes, rising.tolist(), strict=True))


def simulated(
    variant: Variant, recording: Recording, head: HeadTrace | None, curve: Curve, seats: int
) -> float:
    """Return the tokens a second of all requests together, while they decode.

    Args:
        variant: How it drafts.
        recording: The workload.
        head: What its source with a forward pass proposes; None if it has none.
        curve: What steps cost.
        seats: Requests at once.
    """
    tokens = max(_LEAST_TOKENS, _TOKENS_A_SEAT * seats)
    course = course_of([Stage(-(-tokens // seats), seats)])
    world = World(curve, build_library([[_texts(recording, head)]]), course)
    lane = np.zeros(1, dtype=np.int64)
    source = _source(variant)
    rule = Scheduled([fixed(0, "suffix")]) if source is None else Specgate(world, 1, source)
    speed = simulate(world, rule, lane).speed(int(_WARM_UP * course.tokens), course.tokens)
    return seats * float(speed[0])


def _source(variant: Variant) -> Source | None:
    if variant.forward is None:
        return "suffix" if variant.sources else None
    return "both" if "suffix" in variant.sources else "head"


def _texts(recording: Recording, head: HeadTrace | None) -> Texts:
    positions = len(recording.right)
    if head is None:
        head = HeadTrace(np.zeros(positions, dtype=np.int64), np.full((positions, 1), 0.5))
    places = np.arange(head.confidence.shape[1])
    right = np.minimum(recording.right, recording.offered)
    nothing = np.zeros(len(recording.lengths), dtype=np.int64)
    return Texts(
        Offers(recording.offered, recording.survival, head.confidence),
        # What was accepted is known, so its chance is 0 or 1.
        Truth(
            suffix=(np.arange(DEPTH) < right[:, None]).astype(np.float64),
            head=(places < head.right[:, None]).astype(np.float64),
            head_before=np.zeros((positions, 1, len(places))),
            suffix_right=right,
            head_right=head.right,
        ),
        recording.lengths,
        prompts=nothing,
        cached=nothing,
    )


def with_prompts(decoding: Mapping[int, float], prefill: float) -> dict[int, float]:
    """Return tokens a second by requests at once, prompts included.

    Prompts are read one after the other, whatever is drafted, so their time is added.

    Args:
        decoding: Likewise, without prompts.
        prefill: Seconds of prompts for each generated token.
    """
    return {at: 1.0 / (1.0 / speed + prefill) for at, speed in decoding.items()}
