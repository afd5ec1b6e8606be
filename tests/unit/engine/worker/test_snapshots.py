import logging
import stat
from pathlib import Path

import pytest

from engine.suffix import SuffixIndex
from engine.worker.snapshots import Snapshots


def index(*answers: list[int]) -> SuffixIndex:
    made = SuffixIndex(1 << 20, salt=1)
    for number, answer in enumerate(answers):
        made.start(str(number), "t", [99])
        made.extend(str(number), answer)
        made.finish(str(number), keep=True)
    return made


def test_a_saved_index_is_loaded_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "suffix" / "model.0"
    before = index([1, 2, 3, 4, 5])
    Snapshots(before, path).save()

    warm = index()
    Snapshots(warm, path).load()

    assert warm.stats().tokens == before.stats().tokens
    warm.start("r", "t", [77, 1, 2, 3])
    assert warm.propose("r", 2, min_survival=0.0).tokens == [4, 5]


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "suffix" / "model.0"

    Snapshots(index([1, 2]), path).save()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_first_start_is_cold_and_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Snapshots(index(), tmp_path / "none").load()

    assert not caplog.records


def test_a_damaged_file_causes_a_cold_start_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "model.0"
    Snapshots(index([1, 2, 3]), path).save()
    path.write_bytes(path.read_bytes()[:-1])
    cold = index()

    with caplog.at_level(logging.WARNING):
        Snapshots(cold, path).load()

    assert cold.stats().tokens == 0
    assert "the suffix index starts empty" in caplog.text


def test_an_unchanged_index_is_not_saved_again(tmp_path: Path) -> None:
    path = tmp_path / "model.0"
    saved = index([1, 2, 3])
    snapshots = Snapshots(saved, path)
    snapshots.save()
    path.unlink()

    snapshots.save()
    assert not path.exists()

    saved.start("r", "t", [9])
    saved.extend("r", [9])
    saved.finish("r", keep=True)
    snapshots.save()
    assert path.exists()


def test_a_loaded_index_is_not_saved_again(tmp_path: Path) -> None:
    path = tmp_path / "model.0"
    Snapshots(index([1, 2, 3]), path).save()
    again = Snapshots(index(), path)
    again.load()
    path.unlink()

    again.save()

    assert not path.exists()
