"""What the target wrote, document by document, in a file that a killed run can go on with."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Document:
    """One conversation of a prompt and an answer, both written by the target.

    Attributes:
        number: Its place in the recipe's order; the same in every run of the recipe.
        kind: The prompts that it comes from.
        prompt: Token ids as the target read them, template and all; none if it was given up.
        answer: Token ids that the target wrote, its end token included if it came to one.
    """

    number: int
    kind: str
    prompt: Sequence[int]
    answer: Sequence[int]


class DocumentFile:
    """JSON lines, one document each, only ever appended to.

    A line that was cut off by a kill is removed when the file is opened again.
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
        """Write one more document; it is on its way to the disk when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(document), separators=(",", ":")) + "\n")
        self.numbers.add(document.number)
        self.tokens += len(document.answer)
