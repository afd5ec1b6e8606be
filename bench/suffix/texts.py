"""Synthetic texts: millions of tokens of edited copies of real ones, and hostile texts.

They are seeded and made in pieces, so that memory stays bounded.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.suffix.datasets import Request, Tokens

PIECE_TOKENS = 1_000_000
_VOCABULARY = 50_000
_SPAN_TOKENS = (24, 400)  # a copy moves spans of such lengths
_FRESH_SHARE = 0.15  # of spans: text that was never seen
_SUBSTITUTED = 0.04
_DELETED = 0.01
_INSERTED = 0.01
_LOW_BITS = 16
_HASHED_TOKENS = 4  # kLongestOrder in engine/suffix/core/store.hpp
_PHRASES = 300
_MASK_64 = (1 << 64) - 1


def edited_copies(corpus: Tokens, tokens: int, *, seed: int) -> Iterator[Tokens]:
    """Yield `tokens` tokens in pieces: shuffled spans of the corpus, edited, and fresh spans.

    Args:
        corpus: Real text; int32, not empty.
    """
    random = np.random.default_rng(seed)
    left = tokens
    while left > 0:
        piece = _edited(corpus, random)[: min(left, PIECE_TOKENS)]
        left -= len(piece)
        yield piece


def _edited(corpus: Tokens, random: np.random.Generator) -> Tokens:
    few, many = _SPAN_TOKENS
    lengths = random.integers(few, many, size=2 * PIECE_TOKENS // (few + many) + 200)
    begins = random.integers(0, max(1, len(corpus) - many), size=len(lengths))
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    text = corpus[(np.repeat(begins, lengths) + within) % len(corpus)]
    # Fresh tokens are as frequent as in the corpus, so common contexts stay common.
    other = corpus[random.integers(0, len(corpus), size=len(text))]
    fresh = np.repeat(random.random(len(lengths)) < _FRESH_SHARE, lengths)
    text = np.where(fresh | (random.random(len(text)) < _SUBSTITUTED), other, text)
    copies = np.ones(len(text), np.int64)
    draw = random.random(len(text))
    copies[draw < _DELETED] = 0
    copies[draw > 1 - _INSERTED] = 2
    return np.repeat(text, copies).astype(np.int32)


def hostile_texts(tokens: int, *, salt: int, seed: int) -> dict[str, Tokens]:
    """Texts of `tokens` tokens each that repeat without end, or whose contexts collide.

    Args:
        salt: The one that the texts named `known_salt...` are made for; against an
            index with a secret salt only the others are hostile.
    """
    random = np.random.default_rng(seed)
    texts = {"one_token": np.full(tokens, 7, np.int32)}
    for period in range(2, 8):
        texts[f"period_{period}"] = np.resize(np.arange(11, 11 + period, dtype=np.int32), tokens)
    for size in (2, 3, 4, 16):
        texts[f"alphabet_{size}"] = random.integers(0, size, tokens, np.int32)
    almost = np.full(tokens, 7, np.int32)
    almost[random.integers(0, tokens, tokens // 50)] = 8
    texts["one_token_broken"] = almost
    strided = np.arange(1 << (31 - _LOW_BITS), dtype=np.int64) << _LOW_BITS
    texts["equal_low_bits"] = random.choice(strided, tokens).astype(np.int32)
    texts["equal_low_bits_few"] = random.choice(strided[:64], tokens).astype(np.int32)
    texts["known_salt_pairs"] = _colliding(tokens, salt=salt, width=2, random=random)
    texts["known_salt_longest"] = _colliding(tokens, salt=salt, width=_HASHED_TOKENS, random=random)
    return texts


def _colliding(tokens: int, *, salt: int, width: int, random: np.random.Generator) -> Tokens:
    """Contexts of `width` tokens whose hash ends in the same bits, one after the other.

    Source: `ContextHash` in engine/suffix/core/store.cpp; if that changes, this becomes an
    ordinary random text, which only makes the attack weaker.
    """
    factors = _factors(salt, _HASHED_TOKENS + 1)
    contexts = random.integers(0, _VOCABULARY, size=(2_000_000, width)).astype(np.uint64)
    total = np.full(len(contexts), factors[-1], np.uint64)
    for position in range(width):  # the newest token comes last in the text, first in the hash
        total += np.uint64(factors[position]) * (contexts[:, width - 1 - position] + np.uint64(1))
    low = (total >> np.uint64(32)) & np.uint64(0xFFF)
    chosen: NDArray[np.uint64] = contexts[low == low[0]]
    return np.resize(chosen.astype(np.int32).ravel(), tokens)


def _factors(state: int, count: int) -> Sequence[int]:
    # Source: S. Vigna's splitmix64, as the index derives its secret from the salt.
    factors = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & _MASK_64
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK_64
        factors.append((mixed ^ (mixed >> 31)) | 1)
    return factors


def far_copies(requests: int, *, lengths: tuple[int, int], seed: int) -> list[Request]:
    """Answers that copy passages from the beginning of a long prompt.

    The text is made of phrases of 2 to 6 tokens, so a short context has often been seen since, with
    other continuations. Only a long match tells where a copy goes on.

    Args:
        lengths: Of a passage: the least, and one more than the most.

    Returns:
        Requests with prompts of some 16,000 tokens and answers of some 500.
    """
    random = np.random.default_rng(seed)
    # Zipf's law: a few phrases are most of the text.
    chances = 1 / np.arange(1, _PHRASES + 1)
    chances /= chances.sum()
    phrases = [random.integers(0, 2000, random.integers(2, 7)) for _ in range(_PHRASES)]
    found = []
    for _ in range(requests):
        chosen = random.choice(_PHRASES, 4000, p=chances)
        prompt = np.concatenate([phrases[phrase] for phrase in chosen]).astype(np.int32)
        begins = random.integers(0, len(prompt) // 4, size=1000 // sum(lengths))
        parts = [prompt[begin : begin + random.integers(*lengths)] for begin in begins]
        found.append(Request(prompt, np.concatenate(parts), is_last=True))
    return found
