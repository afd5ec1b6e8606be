"""Step 2: the target's hidden states for its text, stored in files or computed when needed."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import TrainingError
from engine.training.documents import Document
from engine.training.group import Group
from engine.training.memory import is_out_of_memory
from engine.training.shard import Shard, is_outdated, is_shard, open_shard, save_shard

# An answer of one token contains nothing to draft.
_SHORTEST = 2


class Reads(Protocol):
    """What step 2 needs of the target; implemented by `engine.training.target.Target`."""

    hidden_size: int

    def read(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Return [texts, longest, hidden_size]: the hidden states after the final norm."""


class States(Protocol):
    """A source of the shards of one part of the text.

    Attributes:
        rows: Number of rows of each shard.
    """

    rows: list[int]

    def load(self, numbers: Sequence[int]) -> list[Shard]:
        """Return these shards; with several processes, all of them must ask for the same ones."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The content of a shard.

    Attributes:
        documents: Each with a prompt and an answer.
        prompt_rows: Maximum number of rows of each prompt; its last ones are kept.
    """

    documents: Sequence[Document]
    prompt_rows: int

    @property
    def prompts(self) -> list[int]:
        """Rows of each prompt. Its last token has none: that state begins the answer."""
        return [min(len(one.prompt) - 1, self.prompt_rows) for one in self.documents]

    @property
    def lengths(self) -> list[int]:
        """Rows of each document."""
        pairs = zip(self.prompts, self.documents, strict=True)
        return [prompt + len(one.answer) for prompt, one in pairs]

    @property
    def rows(self) -> int:
        """Rows of the shard."""
        return sum(self.lengths)


class StoredStates:
    """Shards in files."""

    def __init__(self, folder: Path, name: str, cuts: Sequence[Cut], *, target: str) -> None:
        """Determine the files.

        Args:
            folder: Folder of the files.
            name: Name of the part of the text.
            cuts: Content of each shard.
            target: Name of the model, so that states of another model are never used.
        """
        self.rows = [cut.rows for cut in cuts]
        self._cuts = cuts
        self._paths = [folder / f"{name}-{n:05}.safetensors" for n in range(len(cuts))]
        self._marks = [_mark(cut, target) for cut in cuts]

    def missing(self) -> list[int]:
        """Return the indices of shards that have not been written."""
        files = enumerate(zip(self._paths, self._marks, strict=True))
        return [number for number, (path, mark) in files if not is_shard(path, mark=mark)]

    def outdated(self) -> int:
        """Return how many shards exist in an older format."""
        return sum(map(is_outdated, self._paths))

    def write(
        self, number: int, target: Reads, *, batch_tokens: int, progress: Callable[[int], None]
    ) -> None:
        """Compute a shard and write it atomically."""
        path = self._paths[number]
        path.parent.mkdir(parents=True, exist_ok=True)
        shard = compute_shard(
            target, self._cuts[number], batch_tokens=batch_tokens, progress=progress
        )
        save_shard(shard, path, mark=self._marks[number])

    def load(self, numbers: Sequence[int]) -> list[Shard]:
        """Map these shards into memory.

        Raises:
            TrainingError: One is missing.
        """
        return [open_shard(self._paths[n], mark=self._marks[n]) for n in numbers]


class StreamedStates:
    """Shards that are computed each time they are needed; processes share the work."""

    def __init__(
        self, target: Reads, cuts: Sequence[Cut], *, batch_tokens: int, group: Group
    ) -> None:
        self.rows = [cut.rows for cut in cuts]
        self._target = target
        self._cuts = cuts
        self._batch_tokens = batch_tokens
        self._group = group

    def load(self, numbers: Sequence[int]) -> list[Shard]:
        """Compute these shards, each in one process, and distribute them to all."""
        group = self._group
        mine = {number: self._compute(number) for number in numbers[group.rank :: group.processes]}
        return [
            self._share(number, mine.get(number), owner=index % group.processes)
            for index, number in enumerate(numbers)
        ]

    def _compute(self, number: int) -> Tensor:
        cut = self._cuts[number]
        return compute_shard(
            self._target, cut, batch_tokens=self._batch_tokens, progress=lambda _: None
        ).hidden

    def _share(self, number: int, hidden: Tensor | None, *, owner: int) -> Shard:
        cut = self._cuts[number]
        if hidden is None:
            hidden = torch.empty(self.rows[number], self._target.hidden_size, dtype=torch.bfloat16)
        return _shard(cut, self._group.broadcast(hidden, owner=owner))


def cut_documents(
    documents: Iterable[Document], *, shard_tokens: int, prompt_rows: int
) -> list[Cut]:
    """Distribute documents to shards, in order, without splitting any.

    Appending documents changes the last shard at most.

    Args:
        documents: All documents; those whose answer is too short to draft are left out.
        shard_tokens: Maximum rows of a shard; a single document may exceed it.
        prompt_rows: Maximum rows of a prompt; the front is cut.
    """
    cuts: list[list[Document]] = [[]]
    held = 0
    for document in documents:
        if len(document.answer) < _SHORTEST:
            continue
        rows = Cut([document], prompt_rows).rows
        if held and held + rows > shard_tokens:
            cuts.append([])
            held = 0
        cuts[-1].append(document)
        held += rows
    return [Cut(cut, prompt_rows) for cut in cuts if cut]


def compute_shard(
    target: Reads, cut: Cut, *, batch_tokens: int, progress: Callable[[int], None]
) -> Shard:
    """Compute the hidden states of some documents.

    Args:
        target: The model.
        cut: The documents.
        batch_tokens: Maximum tokens per forward pass, padding included; a document is never split.
        progress: Called with the number of rows of each batch.

    Returns:
        A shard on the CPU, in the documents' order.
    """
    documents, lengths = cut.documents, cut.lengths
    starts = [0, *accumulate(lengths)]
    hidden = torch.empty(starts[-1], target.hidden_size, dtype=torch.bfloat16)
    for batch in _batches(documents, batch_tokens):
        states = _read(target, [[*documents[n].prompt, *documents[n].answer][:-1] for n in batch])
        done = 0
        for state, number in zip(states, batch, strict=True):
            document, rows = documents[number], lengths[number]
            end = len(document.prompt) + len(document.answer) - 1
            hidden[starts[number] : starts[number + 1]] = state[end - rows : end]
            done += rows
        progress(done)
    return _shard(cut, hidden)


def _read(target: Reads, texts: Sequence[Sequence[int]]) -> list[Tensor]:
    """Compute the states of some texts, in smaller batches if memory runs out."""
    try:
        return list(target.read(texts))
    except RuntimeError as exc:
        if not is_out_of_memory(exc):
            raise
        if len(texts) == 1:
            raise TrainingError(
                f"not enough memory for {len(texts[0])} tokens; reduce text.max_answer_tokens"
            ) from exc
    half = len(texts) // 2
    return [*_read(target, texts[:half]), *_read(target, texts[half:])]


def _batches(documents: Sequence[Document], batch_tokens: int) -> Iterator[list[int]]:
    """Yield batches of indices of documents with similar lengths, longest first."""

    def length(number: int) -> int:
        return len(documents[number].prompt) + len(documents[number].answer) - 1

    batch: list[int] = []
    for number in sorted(range(len(documents)), key=length, reverse=True):
        if batch and length(batch[0]) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _shard(cut: Cut, hidden: Tensor) -> Shard:
    lengths = cut.lengths
    tokens = [
        token
        for document, rows in zip(cut.documents, lengths, strict=True)
        for token in (*document.prompt, *document.answer)[-rows:]
    ]
    return Shard.of(
        hidden,
        torch.tensor(tokens, dtype=torch.int64),
        lengths=lengths,
        prompts=cut.prompts,
        kinds=[document.kind for document in cut.documents],
    )


def _mark(cut: Cut, target: str) -> str:
    digest = hashlib.sha256(f"{target}\n{cut.prompt_rows}".encode())
    for document in cut.documents:
        digest.update(f"\n{document.number}:".encode())
        digest.update(repr((list(document.prompt), list(document.answer))).encode())
    return digest.hexdigest()
