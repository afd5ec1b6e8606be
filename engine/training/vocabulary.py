"""Step 3, first: which tokens a head shall be able to draft."""

from collections import Counter
from collections.abc import Iterable

from engine.training.documents import Document


def choose_vocabulary(
    documents: Iterable[Document], *, size: int, vocab_size: int
) -> tuple[list[int], float]:
    """Return the most frequent answer tokens.

    Args:
        documents: Those to train on.
        size: How many tokens to choose, at most `vocab_size`.
        vocab_size: Of the target.

    Returns:
        Target ids, rising, and the share of all answer tokens that they are. Equally frequent
        tokens, those that never occur among them, are taken from the lowest id on: tokenizers
        number the common ones first.
    """
    counts = _count(documents)
    ranked = sorted(range(vocab_size), key=lambda token: (-counts[token], token))
    chosen = ranked[:size]
    return sorted(chosen), _share(counts, chosen)


def coverage_of(documents: Iterable[Document], ids: Iterable[int]) -> float:
    """Return the share of all answer tokens that some target ids are."""
    return _share(_count(documents), ids)


def _count(documents: Iterable[Document]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for document in documents:
        counts.update(document.answer)
    return counts


def _share(counts: Counter[int], ids: Iterable[int]) -> float:
    return sum(counts[token] for token in ids) / max(counts.total(), 1)
