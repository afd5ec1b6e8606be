"""A shard: hidden states and tokens of some documents, concatenated as flat rows.

A row is a hidden state of the target and the token that follows it. In an answer, that is the state
from which the token was sampled, just what a head gets when drafting. Each document has the last
rows of its prompt, for heads with a window, and then the rows of its answer, one per token.
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

_VERSION = "2"
"""Version of the file format; version 1 had rows of answers only."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of documents.

    Attributes:
        hidden: Last hidden states after the final norm, bfloat16, [rows, hidden_size].
        tokens: Target ids, int64, [rows].
        lengths: Number of rows of each document.
        prompts: How many of these belong to the prompt; they come first.
        kinds: Kind of prompt of each document.
        begins: For each row, the first row of its document, int64, [rows].
        answers: For each row, the first row of its document's answer, int64, [rows].
        ends: For each row, the end of its document (exclusive), int64, [rows].
    """

    hidden: Tensor
    tokens: Tensor
    lengths: tuple[int, ...]
    prompts: tuple[int, ...]
    kinds: tuple[str, ...]
    begins: Tensor
    answers: Tensor
    ends: Tensor

    @classmethod
    def of(
        cls,
        hidden: Tensor,
        tokens: Tensor,
        *,
        lengths: Sequence[int],
        prompts: Sequence[int],
        kinds: Sequence[str],
    ) -> Self:
        """Build a shard and compute the boundaries for each row."""
        counts = torch.tensor(lengths, dtype=torch.int64)
        ends = counts.cumsum(0)
        begins = ends - counts
        edges = begins, begins + torch.tensor(prompts, dtype=torch.int64), ends
        begins, answers, ends = (edge.repeat_interleave(counts) for edge in edges)
        return cls(
            hidden, tokens, tuple(lengths), tuple(prompts), tuple(kinds), begins, answers, ends
        )

    @property
    def answer_tokens(self) -> int:
        """Number of rows that belong to answers."""
        return sum(self.lengths) - sum(self.prompts)


def beginning(shards: Sequence[Shard], tokens: int) -> list[Shard]:
    """Return the first documents of some shards, up to this many answer tokens."""
    taken: list[Shard] = []
    for shard in shards:
        count = rows = 0
        while count < len(shard.lengths) and tokens > 0:
            rows += shard.lengths[count]
            tokens -= shard.lengths[count] - shard.prompts[count]
            count += 1
        if count:
            part = Shard.of(
                shard.hidden[:rows],
                shard.tokens[:rows],
                lengths=shard.lengths[:count],
                prompts=shard.prompts[:count],
                kinds=shard.kinds[:count],
            )
            taken.append(part)
    return taken


def save_shard(shard: Shard, path: Path, *, mark: str) -> None:
    """Write a shard atomically.

    Args:
        shard: On the CPU.
        path: Path of the file.
        mark: Digest of what it was computed from; required to open it.
    """
    about = {
        "version": _VERSION,
        "mark": mark,
        "lengths": json.dumps(shard.lengths),
        "prompts": json.dumps(shard.prompts),
        "kinds": json.dumps(shard.kinds),
    }
    scratch = path.with_suffix(".part")
    save_file({"hidden": shard.hidden, "tokens": shard.tokens}, scratch, metadata=about)
    scratch.rename(path)


def is_shard(path: Path, *, mark: str) -> bool:
    """Tell whether there is a complete shard with this mark."""
    about = _read_about(path)
    return (about.get("version"), about.get("mark")) == (_VERSION, mark)


def is_outdated(path: Path) -> bool:
    """Tell whether there is a complete shard in an older format, which is no longer readable."""
    about = _read_about(path)
    return bool(about) and about.get("version") != _VERSION


def open_shard(path: Path, *, mark: str) -> Shard:
    """Map a shard into memory; rows are read from disk when used.

    Raises:
        TrainingError: It is missing, damaged, or has another mark.
    """
    if not is_shard(path, mark=mark):
        raise TrainingError(f"{path}: no hidden states for this text; run the step `hidden` again")
    with safe_open(path, "pt") as file:
        about = file.metadata()
        return Shard.of(
            file.get_tensor("hidden"),
            file.get_tensor("tokens"),
            lengths=json.loads(about["lengths"]),
            prompts=json.loads(about["prompts"]),
            kinds=json.loads(about["kinds"]),
        )


def _read_about(path: Path) -> dict[str, str]:
    """Return a shard's metadata; empty if it is damaged or missing."""
    if not path.exists():
        return {}
    try:
        with safe_open(path, "pt") as file:
            about: dict[str, str] = file.metadata()
    except SafetensorError:  # cut off by a full disk or a crash of the machine
        return {}
    return about
