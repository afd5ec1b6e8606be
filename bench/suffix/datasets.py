"""Recorded conversations, rendered as a chat template does, as token ids."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.suffix.kinds import Kinds, kinds_of
from loadtest.conversations import Messages, Record, read_file

Tokens = NDArray[np.int32]
# The ids of a text's tokens, and where each begins in the text, in characters.
Encoded = tuple[Sequence[int], Sequence[int]]
Encode = Callable[[Sequence[str]], Sequence[Encoded]]

END = "<|im_end|>"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request as text: everything before the answer, and the recorded answer.

    Attributes:
        is_last: No later request of the same conversation repeats this one in its prompt.
        groups: What it has in common with others, such as "kind code" and "project pydicom".
    """

    prompt: str
    answer: str
    is_last: bool
    groups: Sequence[str] = ()
    category: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """The same as token ids; int32, contiguous, writable, both at least one token."""

    prompt: Tokens
    answer: Tokens
    is_last: bool
    groups: Sequence[str] = ()
    kinds: Kinds = field(default_factory=lambda: np.zeros(0, np.uint8))  # of the answer's tokens


@dataclass(frozen=True, slots=True)
class DataSet:
    """One file.

    Attributes:
        is_edit: Agent sessions and code edits, where most of an answer was seen before.
        left_out: Requests beyond the bound on tokens.
    """

    name: str
    is_edit: bool
    requests: Sequence[Request]
    left_out: int

    @property
    def prompt_tokens(self) -> int:
        return sum(len(request.prompt) for request in self.requests)

    @property
    def answer_tokens(self) -> int:
        return sum(len(request.answer) for request in self.requests)

    @property
    def conversations(self) -> list[list[Request]]:
        """Requests by the conversation that they belong to."""
        found: list[list[Request]] = [[]]
        for request in self.requests:
            found[-1].append(request)
            if request.is_last:
                found.append([])
        return [conversation for conversation in found if conversation]

    @property
    def documents(self) -> list[Tokens]:
        """Every conversation once, prompts included."""
        return [document_of(conversation) for conversation in self.conversations]


def document_of(conversation: Sequence[Request]) -> Tokens:
    """The whole conversation once: the last request contains the earlier ones."""
    return np.concatenate([conversation[-1].prompt, conversation[-1].answer])


def load_dataset(path: Path, encode: Encode, *, most_tokens: int) -> DataSet | None:
    """Read one file; None when it has no recorded answers.

    Args:
        path: A file of recorded conversations.
        encode: Tokens of each of several texts.
        most_tokens: Bound on prompts and answers together; the first request is always taken.

    Raises:
        DataError: A line is not such an object.
    """
    records = list(read_file(path))
    exchanges = [exchange for record in records for exchange in exchanges_of(record)]
    if not exchanges:
        return None
    prompts = encode([exchange.prompt for exchange in exchanges])
    answers = encode([exchange.answer for exchange in exchanges])
    requests: list[Request] = []
    total = 0
    for exchange, (prompt, _), (answer, begins) in zip(exchanges, prompts, answers, strict=True):
        total += len(prompt) + len(answer)
        if requests and total > most_tokens:
            break
        ids = np.array(prompt, np.int32), np.array(answer, np.int32)
        kinds = kinds_of(exchange.answer, begins, category=exchange.category)
        requests.append(Request(*ids, exchange.is_last, exchange.groups, kinds))
    return DataSet(
        name=path.stem,
        is_edit=is_edit_set(path.stem, [record.category for record in records]),
        requests=requests,
        left_out=len(exchanges) - len(requests),
    )


def exchanges_of(record: Record) -> list[Exchange]:
    """The requests that a record stands for; none when it has no recorded answer."""
    found = list(record.exchanges())
    groups = groups_of(record)
    return [
        Exchange(render(messages), answer + END, number == len(found), groups, record.category)
        for number, (messages, answer) in enumerate(found, 1)
    ]


def groups_of(record: Record) -> Sequence[str]:
    """Its kind, and its project where its id ends as SWE-bench's do: `owner__repository-issue`."""
    kind = f"kind {record.category or record.kind}"
    project, found, _ = record.name.rpartition("/")[2].partition("__")
    return (kind, f"project {project}") if found else (kind,)


def render(messages: Messages) -> str:
    """The prompt as the model gets it."""
    parts = [f"<|im_start|>{message['role']}\n{message['content']}{END}\n" for message in messages]
    return "".join(parts) + "<|im_start|>assistant\n"


def is_edit_set(name: str, categories: Sequence[str]) -> bool:
    """Whether a file has agent sessions or code edits, by its name or by most of its records."""
    if name.startswith(("trace_", "edit_")):
        return True
    hits = sum(category.startswith("agent") or category == "code_edit" for category in categories)
    return hits * 2 > len(categories)


def save_datasets(path: Path, datasets: Sequence[DataSet]) -> None:
    """Write tokens for the processes that replay them; `load_saved` is the other half."""
    arrays: dict[str, NDArray[np.int32]] = {}
    for dataset in datasets:
        pieces = [piece for r in dataset.requests for piece in (r.prompt, r.answer)]
        shape = [(len(r.prompt), len(r.answer), int(r.is_last)) for r in dataset.requests]
        arrays[f"{dataset.name}/tokens"] = np.concatenate(pieces)
        arrays[f"{dataset.name}/kinds"] = np.concatenate([r.kinds for r in dataset.requests])
        arrays[f"{dataset.name}/shape"] = np.array(shape, np.int32)
        arrays[f"{dataset.name}/facts"] = np.array([dataset.is_edit, dataset.left_out], np.int32)
    np.savez(path, allow_pickle=False, **arrays)


def load_saved(path: Path) -> dict[str, DataSet]:
    """Read what `save_datasets` wrote, by name."""
    found = {}
    with np.load(path) as arrays:
        for name in sorted({key.rpartition("/")[0] for key in arrays.files}):
            is_edit, left_out = (int(fact) for fact in arrays[f"{name}/facts"])
            cut = _cut(*(arrays[f"{name}/{part}"] for part in ("tokens", "shape", "kinds")))
            found[name] = DataSet(name, bool(is_edit), list(cut), left_out)
    return found


def seed_of(name: str) -> int:
    """A seed for a name, the same in every run."""
    return zlib.crc32(name.encode())


def _cut(tokens: Tokens, shape: NDArray[np.int32], kinds: Kinds) -> Iterator[Request]:
    at = kind = 0
    for prompt, answer, is_last in shape.tolist():
        middle, end = at + prompt, at + prompt + answer
        yield Request(
            tokens[at:middle].copy(),
            tokens[middle:end].copy(),
            bool(is_last),
            kinds=kinds[kind : kind + answer].copy(),
        )
        at, kind = end, kind + answer
