"""Step 3, setup: chooses the draft vocabulary of a head."""

from collections import Counter
from collections.abc import Iterable

from engine.training.documents import Document


def choose_vocabulary(
    documents: Iterable[Document], *, size: int, vocab_size: int
) -> tuple[list[int], float]:
    """Return the most frequent answer tokens.

    Args:
        documents: The documents to train on.
        size: Number of tokens to choose, at most `vocab_size`.
        vocab_size: Vocabulary size of the target.

    Returns:
        Target ids, rising, and their share of all answer tokens. Ties, including tokens that never
        occur, go to the lowest id: tokenizers give common tokens low ids.
    """
    counts = _count(documents)
    ranked = sorted(range(vocab_size), key=lambda token: (-counts[token], token))
    chosen = ranked[:size]
    return sorted(chosen), _share(counts, chosen)


def coverage_of(documents: Iterable[Document], ids: Iterable[int]) -> float:
    """Return the share of all answer tokens that these target ids cover."""
    return _share(_count(documents), ids)


def _count(documents: Iterable[Document]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for document in documents:
        counts.update(document.answer)
    return counts


def _share(counts: Counter[int], ids: Iterable[int]) -> float:
    return sum(counts[token] for token in ids) / max(counts.total(), 1)
