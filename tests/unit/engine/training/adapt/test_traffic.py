from pathlib import Path

import pytest

from engine.traffic import AdaptFolder, Seal, list_segments
from engine.training.adapt import traffic as room
from engine.training.adapt.traffic import all_segments, read_traffic
from tests.unit.engine.training.adapt.small import TARGET, record

KEY = bytes(range(32))


@pytest.fixture
def folder(tmp_path: Path) -> AdaptFolder:
    return AdaptFolder(tmp_path)


def test_requests_are_learnt_from_or_held_out(folder: AdaptFolder) -> None:
    record(folder, 40)

    found = read_traffic(all_segments(folder), Seal(), target=TARGET)

    assert found is not None
    counts = len(found.training.lengths), len(found.held_out.lengths)
    assert sum(counts) == 40
    assert counts[0] > 4 * counts[1] > 0
    assert found.damaged == 0
    assert found.counts().total() == found.training.answer_tokens


def test_damaged_segments_are_left_out_and_counted(folder: AdaptFolder) -> None:
    record(folder, 40)
    first, second, *_ = all_segments(folder)
    first.write_bytes(b"nothing")
    second.write_bytes(second.read_bytes()[:-1])

    found = read_traffic(all_segments(folder), Seal(), target=TARGET)

    assert found is not None
    assert found.damaged == 2
    assert len(found.training.lengths) + len(found.held_out.lengths) == 38


def test_without_the_key_there_is_nothing_to_learn_from(folder: AdaptFolder) -> None:
    record(folder, 40, key=KEY)

    assert read_traffic(all_segments(folder), Seal(), target=TARGET) is None
    assert read_traffic(all_segments(folder), Seal(KEY), target=TARGET) is not None


def test_another_models_text_and_deleted_files_are_left_out(folder: AdaptFolder) -> None:
    record(folder, 40)
    paths = all_segments(folder)

    assert read_traffic(paths, Seal(), target="another") is None
    for path in list_segments(folder.segments(0)):
        path.unlink()
    assert read_traffic(paths, Seal(), target=TARGET) is None


def test_of_older_text_only_some_is_read(
    folder: AdaptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(folder, 60)
    monkeypatch.setattr(room, "_NEWEST_TOKENS", 20 * 60)
    monkeypatch.setattr(room, "_OLDER_TOKENS", 10 * 60)

    found = read_traffic(all_segments(folder), Seal(), target=TARGET)

    assert found is not None
    texts = len(found.training.lengths) + len(found.held_out.lengths)
    assert 20 < texts <= 30
    assert len(found.held_out.lengths) <= 20
