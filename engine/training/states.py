"""Step 2: the target's hidden states over what it wrote, stored or made as they are used."""

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


@dataclass(frozen=True, slots=True)
class Cut:
    """What goes into a shard.

    Attributes:
        documents: With a prompt and an answer each.
        prompt_rows: How many rows of its prompt, the last ones, each may have at most.
    """

    documents: Sequence[Document]
    prompt_rows: int

    @property
    def prompts(self) -> list[int]:
        """Rows of each prompt: none for its last token, whose state the answer begins with."""
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
        """Name the files.

        Args:
            folder: Holds them.
            name: Of the part of the text.
            cuts: What goes into each shard.
            target: Names the model, so that another one's states are never taken for its own.
        """
        self.rows = [cut.rows for cut in cuts]
        self._cuts = cuts
        self._paths = [folder / f"{name}-{n:05}.safetensors" for n in range(len(cuts))]
        self._marks = [_mark(cut, target) for cut in cuts]

    def missing(self) -> list[int]:
        """Return the shards that are still to be written."""
        places = enumerate(zip(self._paths, self._marks, strict=True))
        return [number for number, (path, mark) in places if not is_shard(path, mark=mark)]

    def outdated(self) -> int:
        """Return how many of them are there in an older version."""
        return sum(map(is_outdated, self._paths))

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
        self, target: Reads, cuts: Sequence[Cut], *, batch_tokens: int, group: Group
    ) -> None:
        self.rows = [cut.rows for cut in cuts]
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


def cut_documents(
    documents: Iterable[Document], *, shard_tokens: int, prompt_rows: int
) -> list[Cut]:
    """Share documents out to shards, in their order; no answer is cut itself.

    More documents behind these change the last shard at most.

    Args:
        documents: All of them; those whose answer is too short to draft are left out.
        shard_tokens: Most rows of a shard; one document may have more.
        prompt_rows: Most rows of a prompt, which loses its front.
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
        batch_tokens: Most tokens that the target reads at once, padding included; one document
            is always read whole.
        progress: Told of the rows of each batch.

    Returns:
        On the CPU, in the documents' order.
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
