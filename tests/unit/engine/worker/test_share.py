import os
from pathlib import Path

import pytest

from engine.worker import share
from engine.worker.share import Share

MODEL = "org/model, tokenizer 1"


def put(folder: Path, name: str, content: str, *, identity: str = MODEL, age: float = 0) -> None:
    """Put a file as the worker `name`, `age` seconds ago."""
    source = folder / "source"
    source.write_text(content)
    Share(str(folder / "share"), identity, name).put(source)
    if age:
        (path,) = (folder / "share").rglob(f"{name}.suffix")
        then = path.stat().st_mtime - age
        os.utime(path, (then, then))


def fetch(folder: Path, *, identity: str = MODEL) -> list[tuple[str, str]]:
    copy = folder / "copy"
    reader = Share(f"file://{folder}/share", identity, "reader")
    return [(name, copy.read_text()) for name in reader.fetch(copy)]


def test_files_of_all_workers_come_oldest_first(tmp_path: Path) -> None:
    put(tmp_path, "b", "second", age=10)
    put(tmp_path, "a", "third")
    put(tmp_path, "c", "first", age=20)

    files = fetch(tmp_path)

    assert files == [("c.suffix", "first"), ("b.suffix", "second"), ("a.suffix", "third")]


def test_a_worker_replaces_its_own_file(tmp_path: Path) -> None:
    put(tmp_path, "a", "old")
    put(tmp_path, "a", "new")

    assert fetch(tmp_path) == [("a.suffix", "new")]


def test_other_models_have_other_folders(tmp_path: Path) -> None:
    put(tmp_path, "a", "theirs", identity="org/other, tokenizer 2")

    assert fetch(tmp_path) == []
    assert fetch(tmp_path, identity="org/other, tokenizer 2") == [("a.suffix", "theirs")]


def test_an_empty_place_has_no_files(tmp_path: Path) -> None:
    assert fetch(tmp_path) == []


def test_only_the_latest_files_are_read_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share, "_MOST_READ", 2)
    monkeypatch.setattr(share, "_MOST_KEPT", 3)
    for number in range(5):
        put(tmp_path, f"w{number}", str(number), age=100 - number)

    assert [content for _, content in fetch(tmp_path)] == ["3", "4"]
    kept = {path.name for path in (tmp_path / "share").rglob("*.suffix")}
    assert kept == {"w2.suffix", "w3.suffix", "w4.suffix"}


def test_only_the_owner_can_read_a_file(tmp_path: Path) -> None:
    put(tmp_path, "a", "text")

    (path,) = (tmp_path / "share").rglob("*.suffix")
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_an_interrupted_worker_left_is_not_read(tmp_path: Path) -> None:
    put(tmp_path, "a", "whole")
    (path,) = (tmp_path / "share").rglob("*.suffix")
    path.with_name("b.suffix.partial").write_text("half")

    assert fetch(tmp_path) == [("a.suffix", "whole")]


def test_a_place_that_cannot_be_written_is_an_error_and_the_old_file_stays(
    tmp_path: Path,
) -> None:
    put(tmp_path, "a", "old")
    (path,) = (tmp_path / "share").rglob("*.suffix")
    path.with_name("a.suffix.partial").mkdir()

    with pytest.raises(OSError, match="partial"):
        put(tmp_path, "a", "new")

    assert path.read_text() == "old"


def test_object_stores_are_named_by_url(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("text")
    url = "memory://bucket/specgate"
    Share(url, MODEL, "a").put(source)

    names = list(Share(url, MODEL, "reader").fetch(tmp_path / "copy"))

    assert names == ["a.suffix"]
    assert (tmp_path / "copy").read_text() == "text"


@pytest.mark.parametrize(("url", "error"), [("nope://a", ValueError), ("s3://a", ImportError)])
def test_an_unknown_place_is_refused(url: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        Share(url, MODEL, "a")
