from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import TrainingError
from engine.training.documents import Document
from engine.training.shard import Shard
from engine.training.states import (
    Cut,
    Reads,
    StoredStates,
    compute_shard,
    cut_documents,
)


class Recorder:
    """A target whose state at a position is the number of tokens read and the last of them."""

    hidden_size = 2

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def read(self, texts: Sequence[Sequence[int]]) -> Tensor:
        self.batches.append([len(text) for text in texts])
        states = torch.full((len(texts), max(map(len, texts)), 2), -1.0)
        for state, text in zip(states, texts, strict=True):
            for index, token in enumerate(text):
                state[index] = torch.tensor([index + 1.0, float(token)])
        return states


def document(number: int, *, prompt: int, answer: int) -> Document:
    return Document(number, "chat", tuple(range(prompt)), tuple(range(100, 100 + answer)))


def compute(
    documents: Sequence[Document], *, target: Reads | None = None, prompt_rows: int = 0
) -> Shard:
    return compute_shard(
        target or Recorder(),
        Cut(documents, prompt_rows),
        batch_tokens=99,
        progress=lambda _: None,
    )


def test_a_row_has_the_state_that_its_token_was_sampled_from() -> None:
    documents = [document(0, prompt=3, answer=2), document(1, prompt=1, answer=4)]

    shard = compute(documents)

    assert shard.hidden.tolist() == [[3, 2], [4, 100], [1, 0], [2, 100], [3, 101], [4, 102]]
    assert shard.tokens.tolist() == [100, 101, 100, 101, 102, 103]
    assert (shard.lengths, shard.prompts) == ((2, 4), (0, 0))
    assert shard.hidden.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("prompt_rows", "hidden", "tokens"),
    [
        (9, [[1, 0], [2, 1], [3, 2], [4, 100]], [1, 2, 100, 101]),
        (1, [[2, 1], [3, 2], [4, 100]], [2, 100, 101]),
    ],
    ids=["a whole prompt", "a longer one"],
)
def test_a_row_of_a_prompt_has_the_token_after_its_state(
    prompt_rows: int, hidden: list[list[float]], tokens: list[int]
) -> None:
    documents = [document(0, prompt=3, answer=2), document(1, prompt=1, answer=2)]

    shard = compute(documents, prompt_rows=prompt_rows)

    rows = len(tokens)
    assert shard.hidden[:rows].tolist() == hidden
    assert shard.tokens[:rows].tolist() == tokens
    assert (shard.lengths, shard.prompts) == ((rows, 2), (rows - 2, 0))
    assert shard.hidden[rows:].tolist() == [[1, 0], [2, 100]]


def test_documents_are_batched_by_length() -> None:
    target = Recorder()
    documents = [document(n, prompt=2, answer=answer) for n, answer in enumerate((3, 30, 4, 3, 9))]
    seen: list[int] = []

    compute_shard(target, Cut(documents, 1), batch_tokens=12, progress=seen.append)

    assert target.batches == [[31], [10], [5, 4], [4]]
    assert sum(seen) == 49 + 5


class Scarce(Recorder):
    """A target with memory for two texts of at most 20 tokens."""

    def read(self, texts: Sequence[Sequence[int]]) -> Tensor:
        if len(texts) > 2 or len(texts[0]) > 20:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super().read(texts)


def test_batches_shrink_when_memory_runs_out() -> None:
    target = Scarce()
    documents = [document(n, prompt=2, answer=answer) for n, answer in enumerate((3, 9, 4, 3, 9))]

    short = compute(documents, target=target)

    plain = compute(documents)
    assert torch.equal(short.hidden, plain.hidden)
    assert [len(batch) for batch in target.batches] == [2, 1, 2]


def test_a_text_too_long_for_the_memory_is_reported() -> None:
    with pytest.raises(TrainingError, match="not enough memory for 31 tokens"):
        compute([document(0, prompt=2, answer=30)], target=Scarce())


def test_documents_are_cut_into_shards_whole() -> None:
    answers = (4, 5, 1, 0, 20, 3)
    documents = [document(n, prompt=1, answer=answer) for n, answer in enumerate(answers)]

    cuts = cut_documents(documents, shard_tokens=10, prompt_rows=9)

    assert [[one.number for one in cut.documents] for cut in cuts] == [[0, 1], [4], [5]]
    assert [cut.rows for cut in cuts] == [9, 20, 3]
    assert cut_documents([], shard_tokens=10, prompt_rows=9) == []


def stored(
    folder: Path,
    *,
    answers: Sequence[int] = (4, 5, 6),
    target: str = "t",
    prompt_rows: int = 3,
) -> StoredStates:
    documents = [document(n, prompt=1, answer=answer) for n, answer in enumerate(answers)]
    cuts = cut_documents(documents, shard_tokens=10, prompt_rows=prompt_rows)
    return StoredStates(folder, "training", cuts, target=target)


def write(states: StoredStates, number: int) -> None:
    states.write(number, Recorder(), batch_tokens=99, progress=lambda _: None)


def test_missing_shards_are_written_and_loaded(tmp_path: Path) -> None:
    states = stored(tmp_path / "states")
    assert states.rows == [9, 6]
    assert states.missing() == [0, 1]

    write(states, 1)
    assert states.missing() == [0]
    write(states, 0)

    assert states.missing() == []
    assert [len(shard.tokens) for shard in states.load([1, 0])] == [6, 9]


@pytest.mark.parametrize("change", [{"target": "u"}, {"prompt_rows": 4}])
def test_states_of_another_target_are_missing(tmp_path: Path, change: dict[str, Any]) -> None:
    write(stored(tmp_path), 0)
    other = stored(tmp_path, **change)

    assert other.outdated() == 0
    assert other.missing() == [0, 1]
    with pytest.raises(TrainingError):
        other.load([0])
