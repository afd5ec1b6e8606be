"""Step 4: replays how much of a recorded text a head would have drafted.

Along a recorded answer the head drafts n tokens. Those that match the answer are accepted up to the
first mismatch, and decoding continues after the recorded token at that point (the replacement or
the bonus token). For a greedy answer this is exact. For a sampled one it has the distribution of
the rejection sampler: our drafts are one-hot, so a drafted token d is accepted with the target's
probability p(d), which is the probability that the recorded token is d. Otherwise the recorded
token is distributed as p without d, which is what the sampler draws from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.training.context import Before, look_back
from engine.training.shard import Shard

Propose = Callable[[Tensor, Tensor, Before | None], Tensor]
"""From hidden [m, hidden_size] and tokens [m] to drafts [m, n], target ids; all on the CPU.

With a window it also gets what the m rows may attend to, in runs.
"""

_RUN_ROWS = 64
_RUNS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Counts of drafted and accepted tokens.

    Attributes:
        drafted: Drafts that reached each position before the answer ended, [n].
        accepted: Drafts accepted up to and including each position, [n].
    """

    drafted: NDArray[np.int64]
    accepted: NDArray[np.int64]

    def __add__(self, other: "Acceptance") -> "Acceptance":
        return Acceptance(self.drafted + other.drafted, self.accepted + other.accepted)

    @property
    def ratio(self) -> float:
        """Accepted / drafted."""
        return float(self.accepted.sum() / max(self.drafted.sum(), 1))

    @property
    def length(self) -> float:
        """Tokens per target step that verified a draft, including the bonus token."""
        return float(1 + self.accepted.sum() / max(self.drafted[0], 1))

    @property
    def by_position(self) -> list[float]:
        """Survival at each position: of the drafts that reached it, the share accepted up to it."""
        return [float(share) for share in self.accepted / np.maximum(self.drafted, 1)]


def replay(
    propose: Propose, shards: Sequence[Shard], *, positions: int, window: int = 0
) -> dict[str, Acceptance]:
    """Replay all answers.

    Args:
        propose: The head's drafting function.
        shards: Held-out text. Drafts start in answers only, but windows reach into prompts.
        positions: Tokens per draft.
        window: Window of the head, in rows.

    Returns:
        Acceptance by kind of prompt, in order of appearance.
    """
    found: dict[str, Acceptance] = {}
    nothing = Acceptance(np.zeros(positions, np.int64), np.zeros(positions, np.int64))
    for shard in shards:
        matched = count_matches(propose, shard, positions=positions, window=window)
        begin = 0
        documents = zip(shard.kinds, shard.lengths, shard.prompts, strict=True)
        for kind, length, prompt in documents:
            walked = walk(matched[begin + prompt : begin + length], positions=positions)
            found[kind] = found.get(kind, nothing) + walked
            begin += length
    return found


def count_matches(
    propose: Propose, shard: Shard, *, positions: int, window: int = 0
) -> NDArray[np.int64]:
    """Return for each row how many tokens of its draft match the answer before the first mismatch.

    Nothing matches after the end of an answer. Values for rows of prompts are undefined.
    """
    rows = len(shard.tokens)
    matched = np.zeros(rows, np.int64)
    ahead = torch.arange(positions)
    drafts_at = torch.arange(rows) >= shard.answers
    worth = torch.tensor([bool(run.any()) for run in drafts_at.split(_RUN_ROWS)])
    for starts in torch.arange(0, rows, _RUN_ROWS)[worth].split(_RUNS_AT_ONCE):
        at = (starts[:, None] + torch.arange(_RUN_ROWS)).flatten().clamp_max(rows - 1)
        before = look_back(shard, starts, rows=_RUN_ROWS, window=window) if window else None
        drafts = propose(shard.hidden[at], shard.tokens[at], before)
        wanted = at[:, None] + 1 + ahead
        is_match = drafts == shard.tokens[wanted.clamp_max(rows - 1)]
        is_match &= wanted < shard.ends[at][:, None]
        matched[at.numpy()] = is_match.cumprod(1).sum(1).numpy()
    return matched


def walk(matched: NDArray[np.int64], *, positions: int) -> Acceptance:
    """Decode one answer with drafts; each step continues after the accepted tokens and one more.

    Args:
        matched: Matches of each row of the answer, from `count_matches`.
        positions: Tokens per draft.
    """
    drafted, accepted = np.zeros(positions, np.int64), np.zeros(positions, np.int64)
    row = 0
    while row < len(matched) - 1:
        drafted[: len(matched) - 1 - row] += 1
        accepted[: matched[row]] += 1
        row += int(matched[row]) + 1
    return Acceptance(drafted, accepted)
