"""Documents written by the target, in a file that an interrupted run can continue."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Document:
    """A conversation of one prompt and one answer, both written by the target.

    Attributes:
        number: Its index in the recipe's order, the same in every run.
        kind: The kind of prompt.
        prompt: Token ids as the target read them, template included; empty if it was given up.
        answer: Token ids written by the target, including the end token if it wrote one.
    """

    number: int
    kind: str
    prompt: Sequence[int]
    answer: Sequence[int]


class DocumentFile:
    """A JSON Lines file with one document per line, append-only.

    A line that a kill cut off is removed when the file is opened again.
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
            self.numbers.add(document.number)
            self.tokens += len(document.answer)

    def __iter__(self) -> Iterator[Document]:
        if not self._path.exists():
            return
        with self._path.open(encoding="utf-8") as lines:
            for line in lines:
                yield Document(**json.loads(line))

    def append(self, document: Document) -> None:
        """Append a document; it has been handed to the kernel when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(document), separators=(",", ":")) + "\n")
        self.numbers.add(document.number)
        self.tokens += len(document.answer)
