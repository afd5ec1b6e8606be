"""A shard: hidden states and tokens of some answers, one behind the other, as flat rows.

Row r of an answer is the state from which the target drew its r-th token, and that token: what a
head is given when it drafts. An answer has as many rows as tokens; prompts have none.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import TrainingError


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of answers.

    Attributes:
        hidden: Last hidden states after the final norm, bfloat16, [rows, hidden_size].
        tokens: Target ids, int64, [rows].
        lengths: Rows of each answer.
        kinds: The kind of prompt of each answer.
        begins: For each row, the first row of its answer, int64, [rows].
        ends: For each row, the row behind the end of its answer, int64, [rows].
    """

    hidden: Tensor
    tokens: Tensor
    lengths: tuple[int, ...]
    kinds: tuple[str, ...]
    begins: Tensor
    ends: Tensor

    @classmethod
    def of(
        cls, hidden: Tensor, tokens: Tensor, lengths: Sequence[int], kinds: Sequence[str]
    ) -> Self:
        """Return a shard with `begins` and `ends` filled in."""
        counts = torch.tensor(lengths, dtype=torch.int64)
        ends = counts.cumsum(0)
        begins, ends = (edge.repeat_interleave(counts) for edge in (ends - counts, ends))
        return cls(hidden, tokens, tuple(lengths), tuple(kinds), begins, ends)


def beginning(shards: Sequence[Shard], tokens: int) -> list[Shard]:
    """Return the first answers of some shards, as many as have so many tokens."""
    taken: list[Shard] = []
    for shard in shards:
        answers = rows = 0
        while answers < len(shard.lengths) and rows < tokens:
            rows += shard.lengths[answers]
            answers += 1
        tokens -= rows
        if rows:
            part = slice(answers)
            taken.append(
                Shard.of(
                    shard.hidden[:rows], shard.tokens[:rows], shard.lengths[part], shard.kinds[part]
                )
            )
    return taken


def save_shard(shard: Shard, path: Path, *, mark: str) -> None:
    """Write a shard whole or not at all.

    Args:
        shard: On the CPU.
        path: Of the file.
        mark: Says what it was computed from; whoever opens it must say the same.
    """
    about = {"mark": mark, "lengths": json.dumps(shard.lengths), "kinds": json.dumps(shard.kinds)}
    scratch = path.with_suffix(".part")
    save_file({"hidden": shard.hidden, "tokens": shard.tokens}, scratch, metadata=about)
    scratch.rename(path)


def is_shard(path: Path, *, mark: str) -> bool:
    """Tell whether there is a whole shard that was computed from what `mark` says."""
    if not path.exists():
        return False
    try:
        with safe_open(path, "pt") as file:
            return bool(file.metadata()["mark"] == mark)
    except SafetensorError:  # cut off by a full disk or a crash of the machine
        return False


def open_shard(path: Path, *, mark: str) -> Shard:
    """Map a shard into memory: rows are read from the disk as they are used.

    Raises:
        TrainingError: It is not there, damaged, or was computed from something else.
    """
    if not is_shard(path, mark=mark):
        raise TrainingError(f"{path}: no hidden states of this text; run the step `hidden` again")
    with safe_open(path, "pt") as file:
        about = file.metadata()
        return Shard.of(
            file.get_tensor("hidden"),
            file.get_tensor("tokens"),
            json.loads(about["lengths"]),
            json.loads(about["kinds"]),
        )
