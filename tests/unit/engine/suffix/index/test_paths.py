"""Files that cannot be read or written."""

from pathlib import Path

import pytest

from engine.errors import SnapshotError
from engine.suffix import SuffixIndex
from tests.unit.engine.suffix.index.indexes import MIB, wrong


def test_a_missing_file_is_an_os_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "missing"

    with pytest.raises(FileNotFoundError, match="missing") as caught:
        SuffixIndex(MIB).load(path)

    assert caught.value.filename == path


def test_a_place_that_cannot_be_written_is_an_os_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-folder"):
        SuffixIndex(MIB).save(tmp_path / "no-folder" / "file")


def test_paths_may_be_text_bytes_or_objects_and_need_not_be_unicode(tmp_path: Path) -> None:
    index = SuffixIndex(MIB)
    odd = bytes(tmp_path) + b"/\xff"

    for path in (str(tmp_path / "text"), tmp_path / "object", wrong(odd)):
        index.save(path)
        index.load(path)

    assert len(list(tmp_path.iterdir())) == 3


def test_a_damaged_file_is_a_snapshot_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"no snapshot" * 10)

    with pytest.raises(SnapshotError):
        SuffixIndex(MIB).load(path)
