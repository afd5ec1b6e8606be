"""A shard: hidden states and tokens of some documents, one behind the other, as flat rows.

A row is a state of the target and the token behind it. Of an answer that is the state from which
the token was drawn: what a head is given when it drafts. Before the rows of its answer, as many as
it has tokens, a document has the last ones of its prompt: what a head with a window looks back at.
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
"""Of the files; those of the first one have rows of answers alone."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of documents.

    Attributes:
        hidden: Last hidden states after the final norm, bfloat16, [rows, hidden_size].
        tokens: Target ids, int64, [rows].
        lengths: Rows of each document.
        prompts: How many of these, the first ones, are of its prompt.
        kinds: The kind of prompt of each document.
        begins: For each row, the first row of its document, int64, [rows].
        answers: For each row, the first row of its document's answer, int64, [rows].
        ends: For each row, the row behind the end of its document, int64, [rows].
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
        """Return a shard with what each row must know filled in."""
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
        """Rows that are not of prompts."""
        return sum(self.lengths) - sum(self.prompts)


def beginning(shards: Sequence[Shard], tokens: int) -> list[Shard]:
    """Return the first documents of some shards, as many as have so many answer tokens."""
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
    """Write a shard whole or not at all.

    Args:
        shard: On the CPU.
        path: Of the file.
        mark: Says what it was computed from; whoever opens it must say the same.
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
    """Tell whether there is a whole shard that was computed from what `mark` says."""
    about = _read_about(path)
    return (about.get("version"), about.get("mark")) == (_VERSION, mark)


def is_outdated(path: Path) -> bool:
    """Tell whether there is a whole shard of an older version, which nothing can read any more."""
    about = _read_about(path)
    return bool(about) and about.get("version") != _VERSION


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
            lengths=json.loads(about["lengths"]),
            prompts=json.loads(about["prompts"]),
            kinds=json.loads(about["kinds"]),
        )


def _read_about(path: Path) -> dict[str, str]:
    """Return what a shard says of itself; nothing if it is damaged or not there."""
    if not path.exists():
        return {}
    try:
        with safe_open(path, "pt") as file:
            about: dict[str, str] = file.metadata()
    except SafetensorError:  # cut off by a full disk or a crash of the machine
        return {}
    return about
