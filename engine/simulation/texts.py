"""Answers to be generated, and what drafters say at each position of them.

A position is a token that is still to be generated. Whether a drafter is right there is drawn
before a run, so that every rule gets the same texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.simulation.arrays import Floats, Ints

DEPTH = 32
"""Most tokens that the suffix source offers."""
HEAD = 3
"""Tokens that a head proposes, unless its texts have other ones."""
DRAWS = 8
"""Samples of the survival that the head may have, known before it runs."""


@dataclass(frozen=True, slots=True)
class Offers:
    """What a rule may see.

    Attributes:
        suffix_tokens: How many tokens the suffix source offers at a position; (positions,).
        suffix: Their stated survival, 0 beyond them; (positions, DEPTH).
        confidence: The head's own probability of each token that it would propose, each given the
            ones before; (positions, HEAD). Known only where the head has run.
    """

    suffix_tokens: Ints
    suffix: Floats
    confidence: Floats


@dataclass(frozen=True, slots=True)
class Truth:
    """What is accepted, and how likely that was.

    Attributes:
        suffix: Survival of the tokens that the suffix source offers, 0 beyond; (positions, DEPTH).
        head: Survival of the tokens that the head would propose; (positions, HEAD).
        head_before: Equally likely samples of it that need no pass of the head, only the mode of
            the text (copying or writing); (positions, DRAWS, HEAD).
        suffix_right: How many of the first tokens are correct; (positions,).
        head_right: Likewise of the head; (positions,).
    """

    suffix: Floats
    head: Floats
    head_before: Floats
    suffix_right: Ints
    head_right: Ints


@dataclass(frozen=True, slots=True)
class Texts:
    """Some answers, end to end.

    Attributes:
        lengths: Tokens of each answer; (texts,).
        prompts: Tokens of each prompt that have to be computed; (texts,).
        cached: Tokens of each prompt that are in the prefix cache; (texts,).
    """

    offers: Offers
    truth: Truth
    lengths: Ints
    prompts: Ints
    cached: Ints

    @property
    def begins(self) -> Ints:
        """The first position of each answer."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Library:
    """Texts of several seeds and phases, joined.

    Attributes:
        texts: All of them. Phases of a seed have equal lengths, so that a request can be halfway
            through an answer when the phase changes.
        base: The first position of a seed's texts in a phase; (seeds, phases).
        first: The first text of a seed; (seeds,).
        count: Texts of a seed.
        suffix_sum: Expected tokens of the first n tokens of a suffix draft; (positions, DEPTH + 1).
        head_sum: Likewise of the head's; (positions, HEAD + 1).
    """

    texts: Texts
    base: Ints
    first: Ints
    count: int
    suffix_sum: Floats
    head_sum: Floats


def build_library(by_seed: Sequence[Sequence[Texts]]) -> Library:
    """Join the texts of each seed and phase.

    Raises:
        ValueError: Phases of a seed differ in lengths, or seeds in the number of texts.
    """
    for phases in by_seed:
        if any(not np.array_equal(phases[0].lengths, other.lengths) for other in phases):
            raise ValueError("the phases of a seed have equal lengths")
    count = len(by_seed[0][0].lengths)
    if any(len(phases[0].lengths) != count for phases in by_seed):
        raise ValueError("every seed has as many texts")
    flat = [texts for phases in by_seed for texts in phases]
    sizes = np.array([int(texts.lengths.sum()) for texts in flat])
    base = (np.cumsum(sizes) - sizes).reshape(len(by_seed), -1)
    texts = _joined(flat)
    firsts = [phases[0] for phases in by_seed]
    return Library(
        texts=Texts(
            texts.offers,
            texts.truth,
            np.concatenate([one.lengths for one in firsts]),
            np.concatenate([one.prompts for one in firsts]),
            np.concatenate([one.cached for one in firsts]),
        ),
        base=base,
        first=np.arange(len(by_seed)) * count,
        count=count,
        suffix_sum=_summed(texts.truth.suffix),
        head_sum=_summed(texts.truth.head),
    )


def runs_of(hits: Ints) -> Ints:
    """Count how many of the first columns of each row are 1; (rows,)."""
    return np.asarray(np.cumprod(hits, axis=1).sum(axis=1), dtype=np.int64)


def _summed(survival: Floats) -> Floats:
    return np.concatenate([np.zeros((len(survival), 1)), np.cumsum(survival, axis=1)], axis=1)


def _joined(flat: Sequence[Texts]) -> Texts:
    offers, truths = [texts.offers for texts in flat], [texts.truth for texts in flat]
    return Texts(
        Offers(
            np.concatenate([one.suffix_tokens for one in offers]),
            np.concatenate([one.suffix for one in offers]),
            np.concatenate([one.confidence for one in offers]),
        ),
        Truth(
            np.concatenate([one.suffix for one in truths]),
            np.concatenate([one.head for one in truths]),
            np.concatenate([one.head_before for one in truths]),
            np.concatenate([one.suffix_right for one in truths]),
            np.concatenate([one.head_right for one in truths]),
        ),
        np.concatenate([one.lengths for one in flat]),
        np.concatenate([one.prompts for one in flat]),
        np.concatenate([one.cached for one in flat]),
    )
