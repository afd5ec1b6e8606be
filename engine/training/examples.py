"""From runs of rows to what a head is trained on: states, true tokens, labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.heads import IGNORED
from engine.training.context import Before, look_back
from engine.training.shard import Shard


@dataclass(frozen=True, slots=True)
class Labels:
    """What is to be drafted behind each row of some runs, position by position.

    Attributes:
        draft_ids: The head's id of the token, `IGNORED` where it has none, where there is no token
            and behind rows of prompts, int64, [runs, run_tokens, positions].
        exist: Whether the row is of an answer that has such a token, bool, of the same shape.
        weights: What the target's own distribution counts there: 1 where `exist`, less behind a
            row of a prompt, 0 where there is no token; float32, of the same shape.
    """

    draft_ids: Tensor
    exist: Tensor
    weights: Tensor

    def to(self, device: torch.device) -> "Labels":
        """Return them on a device."""
        return Labels(self.draft_ids.to(device), self.exist.to(device), self.weights.to(device))


@dataclass(frozen=True, slots=True)
class Examples:
    """Some runs, ready for a head.

    Attributes:
        hidden: States of the runs' rows and of `positions` more, [runs, run_tokens + positions,
            hidden_size]; where a document or a shard ends, what follows means nothing.
        tokens: The true tokens that the head is given, int64, [runs, run_tokens, positions].
        labels: What it shall say.
        before: What a head with a window may look at; None without one.
    """

    hidden: Tensor
    tokens: Tensor
    labels: Labels
    before: Before | None = None

    def to(self, device: torch.device) -> "Examples":
        """Return them on a device."""
        return Examples(
            self.hidden.to(device),
            self.tokens.to(device),
            self.labels.to(device),
            None if self.before is None else self.before.to(device),
        )


class Cutter:
    """Cuts runs out of the shards of a window.

    Args:
        draft_of: The head's id of each target id, `IGNORED` where it has none, int64, [vocab_size],
            on the CPU.
        run_tokens: Rows of a run.
        positions: Tokens that the head drafts.
        window: Earlier rows that the head looks at; 0 for none.
        prompt_weight: What rows of prompts count, against those of answers.
    """

    def __init__(
        self,
        draft_of: Tensor,
        *,
        run_tokens: int,
        positions: int,
        window: int = 0,
        prompt_weight: float = 0.0,
    ) -> None:
        self._draft_of = draft_of
        self._prompt_weight = prompt_weight
        self._window = window
        self._run_tokens = run_tokens
        self._positions = positions
        self._reach = torch.arange(run_tokens + positions)
        self._rows = torch.arange(run_tokens)
        self._ahead = torch.arange(positions)

    def label(self, shards: Sequence[Shard], runs: NDArray[np.int64]) -> Labels:
        """Return the labels of some runs, in the order of their shards."""
        parts = [self._label(shards[place], starts) for place, starts in _by_shard(runs)]
        return Labels(
            torch.cat([part.draft_ids for part in parts]),
            torch.cat([part.exist for part in parts]),
            torch.cat([part.weights for part in parts]),
        )

    def cut(self, shards: Sequence[Shard], runs: NDArray[np.int64]) -> Examples:
        """Return some runs, in the order of their shards, on the CPU."""
        hidden, tokens, before = [], [], []
        for place, starts in _by_shard(runs):
            shard = shards[place]
            if self._window:
                before.append(look_back(shard, starts, rows=self._run_tokens, window=self._window))
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
        drafted = self._draft_of[shard.tokens[wanted.clamp(0, last)]]
        weights = torch.where(exist, 1.0, self._prompt_weight) * follows
        return Labels(drafted.where(exist, drafted.new_tensor(IGNORED)), exist, weights)


def _by_shard(runs: NDArray[np.int64]) -> list[tuple[int, Tensor]]:
    """Return the starts of each shard's runs, in the order of the shards."""
    return [
        (int(place), torch.from_numpy(runs[runs[:, 0] == place, 1]))
        for place in np.unique(runs[:, 0])
    ]
