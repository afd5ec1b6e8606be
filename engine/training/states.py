"""Step 2: the target's hidden states over the answers it wrote, stored or made as they are used."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import TrainingError
from engine.training.documents import Document
from engine.training.group import Group
from engine.training.memory import is_out_of_memory
from engine.training.shard import Shard, is_shard, open_shard, save_shard

# An answer of one token has nothing that a head could draft.
_SHORTEST = 2


class Reads(Protocol):
    """What is needed of the target; `engine.training.target.Target` is one."""

    hidden_size: int

    def read(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Return [texts, longest, hidden_size]: the hidden states after the final norm."""


class States(Protocol):
    """Where the shards of a part of the text come from.

    Attributes:
        rows: Rows of each shard.
    """

    rows: list[int]

    def load(self, numbers: Sequence[int]) -> list[Shard]:
        """Return these shards; with several processes, all of them must ask for the same."""


class StoredStates:
    """Shards in files."""

    def __init__(
        self, folder: Path, name: str, cuts: Sequence[Sequence[Document]], *, target: str
    ) -> None:
        """Name the files.

        Args:
            folder: Holds them.
            name: Of the part of the text.
            cuts: What goes into each shard.
            target: Names the model, so that another one's states are never taken for its own.
        """
        self.rows = [_rows(cut) for cut in cuts]
        self._cuts = cuts
        self._paths = [folder / f"{name}-{n:05}.safetensors" for n in range(len(cuts))]
        self._marks = [_mark(cut, target) for cut in cuts]

    def missing(self) -> list[int]:
        """Return the shards that are still to be written."""
        places = enumerate(zip(self._paths, self._marks, strict=True))
        return [number for number, (path, mark) in places if not is_shard(path, mark=mark)]

    def write(
        self, number: int, target: Reads, *, batch_tokens: int, progress: Callable[[int], None]
    ) -> None:
        """Compute a shard and write it, whole or not at all."""
        path = self._paths[number]
        path.parent.mkdir(parents=True, exist_ok=True)
        shard = compute_shard(
            target, self._cuts[number], batch_tokens=batch_tokens, progress=progress
        )
        save_shard(shard, path, mark=self._marks[number])

    def load(self, numbers: Sequence[int]) -> list[Shard]:
        """Map these shards into memory.

        Raises:
            TrainingError: One is not there.
        """
        return [open_shard(self._paths[n], mark=self._marks[n]) for n in numbers]


class StreamedStates:
    """Shards that are computed anew each time they are asked for; processes share the work."""

    def __init__(
        self, target: Reads, cuts: Sequence[Sequence[Document]], *, batch_tokens: int, group: Group
    ) -> None:
        self.rows = [_rows(cut) for cut in cuts]
        self._target = target
        self._cuts = cuts
        self._batch_tokens = batch_tokens
        self._group = group

    def load(self, numbers: Sequence[int]) -> list[Shard]:
        """Compute these shards, each in one of the processes, and give them to all."""
        group = self._group
        mine = {number: self._compute(number) for number in numbers[group.rank :: group.processes]}
        return [
            self._share(number, mine.get(number), owner=place % group.processes)
            for place, number in enumerate(numbers)
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


def cut_documents(documents: Iterable[Document], *, shard_tokens: int) -> list[list[Document]]:
    """Share documents out to shards, in their order; none is cut itself.

    More documents behind these change the last shard at most.
    """
    cuts: list[list[Document]] = [[]]
    held = 0
    for document in documents:
        if len(document.answer) < _SHORTEST:
            continue
        if held and held + len(document.answer) > shard_tokens:
            cuts.append([])
            held = 0
        cuts[-1].append(document)
        held += len(document.answer)
    return [cut for cut in cuts if cut]


def compute_shard(
    target: Reads,
    documents: Sequence[Document],
    *,
    batch_tokens: int,
    progress: Callable[[int], None],
) -> Shard:
    """Compute the hidden states of some documents.

    Args:
        target: The model.
        documents: With a prompt and an answer each.
        batch_tokens: Most tokens that the target reads at once, padding included; one document
            is always read whole.
        progress: Told of the rows of each batch.

    Returns:
        On the CPU, in the documents' order.
    """
    starts = torch.tensor([0, *(len(document.answer) for document in documents)]).cumsum(0)
    hidden = torch.empty(int(starts[-1]), target.hidden_size, dtype=torch.bfloat16)
    for batch in _batches(documents, batch_tokens):
        states = _read(target, [[*documents[n].prompt, *documents[n].answer][:-1] for n in batch])
        done = 0
        for state, number in zip(states, batch, strict=True):
            document = documents[number]
            begin, rows = len(document.prompt) - 1, len(document.answer)
            hidden[starts[number] : starts[number] + rows] = state[begin : begin + rows]
            done += rows
        progress(done)
    return _shard(documents, hidden)


def _read(target: Reads, texts: Sequence[Sequence[int]]) -> list[Tensor]:
    """Have texts read, fewer at a time where memory runs out; returns the states of each."""
    try:
        return list(target.read(texts))
    except RuntimeError as exc:
        if not is_out_of_memory(exc):
            raise
        if len(texts) == 1:
            raise TrainingError(
                f"memory is too small to read {len(texts[0])} tokens; lower text.max_answer_tokens"
            ) from exc
    half = len(texts) // 2
    return [*_read(target, texts[:half]), *_read(target, texts[half:])]


def _batches(documents: Sequence[Document], batch_tokens: int) -> Iterator[list[int]]:
    """Yield the places of documents of nearly the same length, the longest first."""

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


def _shard(documents: Sequence[Document], hidden: Tensor) -> Shard:
    tokens = [token for document in documents for token in document.answer]
    return Shard.of(
        hidden,
        torch.tensor(tokens, dtype=torch.int64),
        [len(document.answer) for document in documents],
        [document.kind for document in documents],
    )


def _rows(documents: Sequence[Document]) -> int:
    return sum(len(document.answer) for document in documents)


def _mark(documents: Sequence[Document], target: str) -> str:
    digest = hashlib.sha256(target.encode())
    for document in documents:
        digest.update(f"\n{document.number}:".encode())
        digest.update(repr((list(document.prompt), list(document.answer))).encode())
    return digest.hexdigest()
