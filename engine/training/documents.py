"""Documents to learn from, in a file that an interrupted run can continue."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Document:
    """A conversation of one prompt and one answer.

    Attributes:
        number: Its index in the recipe's order, the same in every run; below 0 if the prompt is
            from your own data.
        kind: The kind of prompt.
        prompt: Token ids as the target read them, template included; empty if it was given up.
        answer: Token ids, including the end token if there is one.
        held_out: Whether it is for evaluation only; None if its number says.
        is_given: Whether your own data has the answer, too. The target wrote all others.
    """

    number: int
    kind: str
    prompt: Sequence[int]
    answer: Sequence[int]
    held_out: bool | None = None
    is_given: bool = False


_ALWAYS = ("number", "kind", "prompt", "answer")


class DocumentFile:
    """A JSON Lines file with one document per line, append-only.

    A line that a kill cut off is removed when the file is opened again.

    Attributes:
        numbers: Of its documents.
        tokens: Answer tokens of those that are not from your own data.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.numbers: set[int] = set()
        self.tokens = 0
        if path.exists():
            whole = path.read_bytes().rpartition(b"\n")[0]
            with path.open("r+b") as file:
                file.truncate(len(whole) + 1 if whole else 0)
        for document in self:
            self._count(document)

    def __iter__(self) -> Iterator[Document]:
        if not self._path.exists():
            return
        with self._path.open(encoding="utf-8") as lines:
            for line in lines:
                yield Document(**json.loads(line))

    def append(self, document: Document) -> None:
        """Append a document; it has been handed to the kernel when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            said = {
                name: value for name, value in asdict(document).items() if name in _ALWAYS or value
            }
            file.write(json.dumps(said, separators=(",", ":")) + "\n")
        self._count(document)

    def _count(self, document: Document) -> None:
        self.numbers.add(document.number)
        if document.number >= 0:
            self.tokens += len(document.answer)
