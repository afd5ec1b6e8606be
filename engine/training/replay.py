"""Step 4: how much of a text a head would have drafted, by replaying the rule of acceptance.

Along a recorded answer the head drafts n tokens; those that match the answer up to the first that
does not are accepted, and decoding goes on behind the token that came instead, or behind the last
one and the bonus. For a greedy answer that is what happens. For a drawn one it has the same
distribution as the rejection sampler: our drafts are one-hot, so a drafted token d is accepted
with the target's probability p(d), which is the probability that the recorded token is d; and if
it is not, the recorded token is distributed as p without d, which is what the sampler draws from.
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

With a window it is told what the m rows may look at, in runs.
"""

_RUN_ROWS = 64
_RUNS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What became of the drafts.

    Attributes:
        drafted: Drafts that reached each position, [n]; those that the answer ended before are
            not counted.
        accepted: Drafts whose token at that position, and all before it, were accepted, [n].
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
        """Tokens per target step that verified a draft, bonus included."""
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
        propose: The head's.
        shards: Held-out text; of prompts nothing is drafted, but windows look back into them.
        positions: Tokens of a draft.
        window: Rows that the head looks at.

    Returns:
        By kind of prompt, in the order in which they come up.
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
    """Return how many tokens of a draft at each row match the answer before one does not.

    Behind the end of an answer nothing matches. Of rows of prompts it says nothing.
    """
    rows = len(shard.tokens)
    matched = np.zeros(rows, np.int64)
    ahead = torch.arange(positions)
    drafts_at = torch.arange(rows) >= shard.answers
    worth = torch.tensor([bool(run.any()) for run in drafts_at.split(_RUN_ROWS)])
    for starts in torch.arange(0, rows, _RUN_ROWS)[worth].split(_RUNS_AT_ONCE):
        place = (starts[:, None] + torch.arange(_RUN_ROWS)).flatten().clamp_max(rows - 1)
        before = look_back(shard, starts, rows=_RUN_ROWS, window=window) if window else None
        drafts = propose(shard.hidden[place], shard.tokens[place], before)
        wanted = place[:, None] + 1 + ahead
        is_match = drafts == shard.tokens[wanted.clamp_max(rows - 1)]
        is_match &= wanted < shard.ends[place][:, None]
        matched[place.numpy()] = is_match.cumprod(1).sum(1).numpy()
    return matched


def walk(matched: NDArray[np.int64], *, positions: int) -> Acceptance:
    """Decode one answer with drafts: from each step go on behind what was accepted and one more.

    Args:
        matched: Of each row of the answer, as `count_matches` has it.
        positions: Tokens of a draft.
    """
    drafted, accepted = np.zeros(positions, np.int64), np.zeros(positions, np.int64)
    row = 0
    while row < len(matched) - 1:
        drafted[: len(matched) - 1 - row] += 1
        accepted[: matched[row]] += 1
        row += int(matched[row]) + 1
    return Acceptance(drafted, accepted)
