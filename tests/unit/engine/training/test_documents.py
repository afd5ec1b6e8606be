from pathlib import Path

from engine.training.documents import Document, DocumentFile


def test_appended_documents_are_read_again(tmp_path: Path) -> None:
    file = DocumentFile(tmp_path / "text.jsonl")
    first, second = Document(3, "chat", [1, 2], [3, 4, 5]), Document(0, "code", [], [])

    file.append(first)
    file.append(second)
    again = DocumentFile(tmp_path / "text.jsonl")

    assert list(again) == [first, second]
    assert again.numbers == file.numbers == {0, 3}
    assert again.tokens == file.tokens == 3


def test_a_truncated_line_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl"
    DocumentFile(path).append(Document(0, "chat", [1], [2]))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"number":1,"kind":"ch')

    again = DocumentFile(path)
    again.append(Document(1, "chat", [1], [2, 3]))

    assert [document.number for document in DocumentFile(path)] == [0, 1]
    assert again.tokens == 3
