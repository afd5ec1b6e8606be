"""The target model as a head sees it, and checks that the two match."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import HeadTargetError
from engine.heads.config import HeadConfig


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What a head must know of the model that it drafts for.

    Attributes:
        hidden_size: Width of its last hidden state.
        vocab_size: Vocabulary size, without padding of the tables.
        tokenizer_sha256: SHA-256 of its tokenizer.json, lower-case hexadecimal; None if unknown.
        dtype: Dtype of its weights.
        device: Where it runs.
    """

    hidden_size: int
    vocab_size: int
    tokenizer_sha256: str | None
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class SharedTables:
    """Tables that a head reads but the target owns.

    Attributes:
        embedding: Input embeddings, (at least vocab_size, hidden_size).
        output: Weight of the output layer, (at least vocab_size, hidden_size).
    """

    embedding: Tensor | None = None
    output: Tensor | None = None


def check_target(config: HeadConfig, target: TargetFacts, *, name: str) -> None:
    """Check that a head drafts for this target.

    Args:
        config: The head's configuration.
        target: The model.
        name: Name of the head, for messages.

    Raises:
        HeadTargetError: Hidden size, vocabulary or tokenizer differ.
    """
    facts = (
        ("hidden_size", config.hidden_size, target.hidden_size),
        ("vocab_size", config.vocab_size, target.vocab_size),
        ("tokenizer_sha256", config.tokenizer_sha256, target.tokenizer_sha256),
    )
    for fact, found, expected in facts:
        if found != expected and None not in (found, expected):
            raise HeadTargetError(
                f"{name}: made for another target: its {fact} is {found}, the target's {expected}"
            )


def check_tables(config: HeadConfig, shared: SharedTables, *, name: str) -> None:
    """Check that the tables that the head shares with the target exist and fit.

    Raises:
        HeadTargetError: A table is missing or has another shape.
    """
    tables = (
        ("embedding", config.share_embedding, shared.embedding),
        ("output", config.share_output, shared.output),
    )
    for table_name, is_shared, table in tables:
        if not is_shared:
            continue
        expected = f"a table of at least {config.vocab_size} rows by {config.hidden_size}"
        if table is None:
            raise HeadTargetError(
                f"{name}: shares the target's {table_name}: found none, expected {expected}"
            )
        if not table.is_floating_point():
            raise HeadTargetError(
                f"{name}: shares the target's {table_name}: found {table.dtype}, expected floats"
            )
        fits = table.ndim == 2 and table.shape[1] == config.hidden_size
        if not fits or table.shape[0] < config.vocab_size:
            raise HeadTargetError(
                f"{name}: shares the target's {table_name}: found shape {tuple(table.shape)}, "
                f"expected {expected}"
            )
