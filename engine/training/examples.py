"""Turns runs of rows into training examples: states, true tokens, labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.heads import IGNORED
from engine.training.context import Before, look_back
from engine.training.shard import Shard


@dataclass(frozen=True, slots=True)
class Labels:
    """What is to be drafted after each row of some runs, for each draft position.

    Attributes:
        draft_ids: Draft id of the token, int64, [runs, run_tokens, positions]. `IGNORED` if it has
            none, if there is no token, and after rows of prompts.
        exist: Whether the row belongs to an answer and such a token exists; bool, same shape.
        weights: Weight of the target's own distribution: 1 where `exist`, less after a row of a
            prompt, 0 if there is no token; float32, same shape.
    """

    draft_ids: Tensor
    exist: Tensor
    weights: Tensor

    def to(self, device: torch.device) -> "Labels":
        """Return a copy on a device."""
        return Labels(self.draft_ids.to(device), self.exist.to(device), self.weights.to(device))


@dataclass(frozen=True, slots=True)
class Examples:
    """Some runs, ready for a head.

    Attributes:
        hidden: States of the runs' rows and of `positions` more, [runs, run_tokens + positions,
            hidden_size]; undefined after the end of a document or shard.
        tokens: The true tokens that the head is given, int64, [runs, run_tokens, positions].
        labels: What it should draft.
        before: What a head with a window may attend to; None without a window.
    """

    hidden: Tensor
    tokens: Tensor
    labels: Labels
    before: Before | None = None

    def to(self, device: torch.device) -> "Examples":
        """Return a copy on a device."""
        return Examples(
            self.hidden.to(device),
            self.tokens.to(device),
            self.labels.to(device),
            None if self.before is None else self.before.to(device),
        )


@dataclass
class Cutter:
    """Cuts runs out of the shards of a window.

    Attributes:
        draft_of: Draft id of each target id, `IGNORED` if there is none, int64, [vocab_size], on
            the CPU.
        run_tokens: Rows per run.
        positions: Tokens that the head drafts.
        window: Earlier rows that the head attends to; 0 for none.
        prompt_weight: Weight of prompt rows relative to answer rows.
    """

    draft_of: Tensor
    run_tokens: int = field(kw_only=True)
    positions: int = field(kw_only=True)
    window: int = field(default=0, kw_only=True)
    prompt_weight: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        self._reach = torch.arange(self.run_tokens + self.positions)
        self._rows = torch.arange(self.run_tokens)
        self._ahead = torch.arange(self.positions)

    def label(self, shards: Sequence[Shard], runs: NDArray[np.int64]) -> Labels:
        """Return the labels of some runs, in the order of their shards."""
        parts = [self._label(shards[index], starts) for index, starts in _by_shard(runs)]
        return Labels(
            torch.cat([part.draft_ids for part in parts]),
            torch.cat([part.exist for part in parts]),
            torch.cat([part.weights for part in parts]),
        )

    def cut(self, shards: Sequence[Shard], runs: NDArray[np.int64]) -> Examples:
        """Return some runs, in the order of their shards, on the CPU."""
        hidden, tokens, before = [], [], []
        for index, starts in _by_shard(runs):
            shard = shards[index]
            if self.window:
                before.append(look_back(shard, starts, rows=self.run_tokens, window=self.window))
            last = len(shard.tokens) - 1
            rows = (starts[:, None] + self._reach).clamp(0, last)
            hidden.append(shard.hidden[rows])
            given = starts[:, None, None] + self._rows[:, None] + self._ahead
            tokens.append(shard.tokens[given.clamp(0, last)])
        return Examples(
            torch.cat(hidden),
            torch.cat(tokens),
            self.label(shards, runs),
            Before(*map(torch.cat, zip(*before, strict=True))) if before else None,
        )

    def _label(self, shard: Shard, starts: Tensor) -> Labels:
        last = len(shard.tokens) - 1
        rows = starts[:, None] + self._rows
        wanted = rows[..., None] + 1 + self._ahead
        inside = (rows >= 0) & (rows <= last)
        here = rows.clamp(0, last)
        follows = inside[..., None] & (wanted < shard.ends[here][..., None])
        exist = follows & (rows >= shard.answers[here])[..., None]
        drafted = self.draft_of[shard.tokens[wanted.clamp(0, last)]]
        weights = torch.where(exist, 1.0, self.prompt_weight) * follows
        return Labels(drafted.where(exist, drafted.new_tensor(IGNORED)), exist, weights)


def _by_shard(runs: NDArray[np.int64]) -> list[tuple[int, Tensor]]:
    """Return the starts of each shard's runs, in the order of the shards."""
    return [
        (int(index), torch.from_numpy(runs[runs[:, 0] == index, 1]))
        for index in np.unique(runs[:, 0])
    ]
