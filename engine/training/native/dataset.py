"""The text in the library's format: tokens, loss masks and how often each token is drafted."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.errors import TrainingError
from engine.training.documents import Document

_MARK = "mark"
FREQUENCIES = "token_freq.pt"
STATES = "hidden_states"


@dataclass(frozen=True, slots=True)
class Rows:
    """Documents as the library reads them: those to train on first, then those held out.

    Attributes:
        tokens: Prompt and answer of each document.
        prompts: Length of each prompt; what follows it is learnt.
        training: How many of them are trained on.
    """

    tokens: Sequence[Sequence[int]]
    prompts: Sequence[int]
    training: int

    @classmethod
    def of(
        cls, training: Iterable[Document], held_out: Iterable[Document], *, longest: int
    ) -> "Rows":
        """Cut documents to `longest` tokens; those without an answer to learn are left out.

        Raises:
            TrainingError: A part is empty.
        """
        parts = [
            [d for d in part if len(d.answer) > 1 and len(d.prompt) + 1 < longest]
            for part in (training, held_out)
        ]
        if not all(parts):
            raise TrainingError(
                "too little text to train on and to hold out: increase text.tokens, or "
                "train.sequence_tokens if prompts are longer than that"
            )
        documents = [*parts[0], *parts[1]]
        return cls(
            [[*document.prompt, *document.answer][:longest] for document in documents],
            [len(document.prompt) for document in documents],
            len(parts[0]),
        )

    @property
    def training_ratio(self) -> float:
        """A share of which the library takes exactly `training` documents by rounding down."""
        return (self.training + 0.5) / len(self.tokens)

    def count_learnt(self) -> dict[int, int]:
        """Return how often each token is learnt; the library drafts the most frequent ones."""
        counts: Counter[int] = Counter()
        for tokens, prompt in zip(self.tokens[: self.training], self.prompts, strict=False):
            counts.update(tokens[prompt:])
        return dict(counts)

    def mark(self, *facts: object) -> str:
        """Return a digest of the rows and of what else decides."""
        digest = hashlib.sha256(repr((self.training, facts)).encode())
        for tokens, prompt in zip(self.tokens, self.prompts, strict=True):
            digest.update(repr((prompt, list(tokens))).encode())
        return digest.hexdigest()


def write_dataset(rows: Rows, folder: Path, *, mark: str) -> None:
    """Write the rows and the token counts of those to train on, unless they are there already.

    Hidden states of other rows, and what else is in the folder, are removed.

    Args:
        rows: The documents.
        folder: Where the library finds them.
        mark: Digest of the rows and of the states that belong to them.
    """
    if has_mark(folder, mark):
        return
    # It needs seconds to load, and belongs to the extra `train`.
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    shutil.rmtree(folder, ignore_errors=True)
    lengths = [len(tokens) for tokens in rows.tokens]
    masks = [
        [0] * prompt + [1] * (length - prompt)
        for prompt, length in zip(rows.prompts, lengths, strict=True)
    ]
    data = Dataset.from_dict({"input_ids": rows.tokens, "loss_mask": masks, "seq_len": lengths})
    data.set_format("torch")
    data.save_to_disk(folder)
    torch.save(rows.count_learnt(), folder / FREQUENCIES)
    set_mark(folder, mark)


def has_mark(folder: Path, mark: str) -> bool:
    """Tell whether a folder was completed for this digest."""
    path = folder / _MARK
    return path.is_file() and path.read_text(encoding="utf-8") == mark


def set_mark(folder: Path, mark: str) -> None:
    """Say for which digest a folder is."""
    (folder / _MARK).write_text(mark, encoding="utf-8")
