"""Saving and loading: the same drafts afterwards, and refusal of damaged files."""

import os
from pathlib import Path
from typing import Any

import pytest

from engine.errors import SnapshotError
from engine.suffix import SuffixIndex

MIB = 1 << 20
SONG = list(range(1000, 1040))
TENANTS = ("acme", "umbrella", "ünïcode")


def build(salt: int = 1, capacity_bytes: int = 4 * MIB) -> SuffixIndex:
    """Three tenants with answers of their own, and calibrations that have learnt."""
    index = SuffixIndex(capacity_bytes, salt=salt)
    for number, tenant in enumerate(TENANTS):
        index.start("one", tenant, [1])
        for shift in range(5):
            index.propose("one", 8)
            index.extend("one", [token + number * 100 for token in [*SONG, shift]])
        index.finish("one", keep=True)
    return index


def offers(index: SuffixIndex) -> list[tuple[list[int], list[float]]]:
    """What each tenant is offered after the beginning of each song."""
    seen = []
    for tenant in TENANTS:
        for number in range(3):
            index.start("probe", tenant, [2])
            index.extend("probe", [token + number * 100 for token in SONG[:4]])
            draft = index.propose("probe", 8)
            seen.append((draft.tokens, draft.survival))
            index.finish("probe", keep=False)
    return seen


def assert_empty(index: SuffixIndex) -> None:
    stats = index.stats()
    assert (stats.tokens, stats.tenants, stats.bytes, stats.requests) == (0, 0, 0, 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "snapshot"


@pytest.mark.parametrize("salt", [1, 2], ids=["same salt", "other salt"])
def test_a_loaded_index_drafts_as_the_saved_one_did(path: Path, salt: int) -> None:
    saved, loaded = build(), SuffixIndex(4 * MIB, salt=salt)

    saved.save(path)
    loaded.load(path)

    assert offers(loaded) == offers(saved)
    assert len(offers(loaded)[0][0]) == 8
    assert loaded.stats().tokens == saved.stats().tokens


def test_a_loaded_index_saves_the_same_file(path: Path, tmp_path: Path) -> None:
    build().save(path)
    loaded = SuffixIndex(4 * MIB, salt=1)
    loaded.load(path)

    loaded.save(tmp_path / "again")

    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_what_a_running_request_wrote_is_not_saved(path: Path) -> None:
    index = build()
    index.start("running", "acme", [9, 9, 9])
    index.extend("running", [7] * 100)

    index.save(path)
    loaded = SuffixIndex(4 * MIB, salt=1)
    loaded.load(path)

    assert loaded.stats().tokens == build().stats().tokens
    assert loaded.stats().requests == 0


def test_an_empty_index_comes_back_empty(path: Path) -> None:
    SuffixIndex(MIB, salt=1).save(path)
    index = build()

    index.load(path)

    assert_empty(index)


def test_load_replaces_what_was_there(path: Path) -> None:
    build().save(path)
    index = SuffixIndex(4 * MIB, salt=1)
    index.start("one", "other", [1])
    index.extend("one", [5] * 1000)
    index.finish("one", keep=True)

    index.load(path)

    assert index.stats().tenants == len(TENANTS)
    assert offers(index) == offers(build())


def test_a_smaller_index_keeps_what_fits_and_what_was_used_last(path: Path) -> None:
    large = SuffixIndex(16 * MIB, salt=1)
    for number in range(20):
        large.start("one", f"tenant-{number}", [1])
        large.extend("one", [number * 10_000 + i for i in range(9_000)])
        large.finish("one", keep=True)
    large.save(path)
    small = SuffixIndex(MIB, salt=1)

    small.load(path)

    stats = small.stats()
    assert 0 < stats.tokens < large.stats().tokens
    assert stats.bytes <= stats.capacity_bytes
    small.start("probe", "tenant-19", [1])
    small.extend("probe", [190_000 + i for i in range(8_900, 8_990)])
    assert small.propose("probe", 4).tokens == list(range(198_990, 198_994))


def test_a_file_cut_anywhere_is_refused_and_the_index_is_empty(path: Path) -> None:
    index = SuffixIndex(4 * MIB, salt=1)
    build().save(path)

    whole = path.stat().st_size
    for size in [*range(whole - 1, 400, -37), *range(400, -1, -1)]:
        os.truncate(path, size)
        with pytest.raises(SnapshotError):
            index.load(path)

    assert_empty(index)


def test_a_longer_file_is_refused(path: Path) -> None:
    build().save(path)
    path.write_bytes(path.read_bytes() + b"\0")

    with pytest.raises(SnapshotError, match="length"):
        SuffixIndex(4 * MIB, salt=1).load(path)


def test_a_flipped_bit_is_found_and_the_index_is_empty(path: Path) -> None:
    index = build()
    index.save(path)
    content = bytearray(path.read_bytes())

    for place in [*range(200), *range(200, len(content), 211), len(content) - 1]:
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        with pytest.raises(SnapshotError):
            index.load(path)
        content[place] ^= 1 << place % 8

    assert_empty(index)
    path.write_bytes(content)
    index.load(path)
    assert offers(index) == offers(build())


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "too short"), (b"short", "too short"), (b"%PDF-1.7" * 100, "not a snapshot")],
    ids=["empty", "short", "foreign"],
)
def test_a_foreign_file_is_refused_and_the_index_is_empty(
    path: Path, content: bytes, reason: str
) -> None:
    path.write_bytes(content)
    index = build()

    with pytest.raises(SnapshotError, match=reason):
        index.load(path)

    assert_empty(index)


@pytest.mark.parametrize("place", [8, 12], ids=["format", "calibration"])
def test_a_file_of_another_version_is_refused(path: Path, place: int) -> None:
    build().save(path)
    content = bytearray(path.read_bytes())
    content[place] += 1
    path.write_bytes(content)

    with pytest.raises(SnapshotError, match="another version"):
        SuffixIndex(4 * MIB, salt=1).load(path)


def test_a_missing_file_is_named_and_leaves_the_index_empty(path: Path) -> None:
    index = build()

    with pytest.raises(FileNotFoundError, match="snapshot") as caught:
        index.load(path)

    assert caught.value.filename == path
    assert_empty(index)


def test_a_path_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=tmp_path.name):
        SuffixIndex(MIB).load(tmp_path)
    with pytest.raises(OSError, match="no-folder"):
        SuffixIndex(MIB).save(tmp_path / "no-folder" / "file")


def test_paths_may_be_text_bytes_or_objects_and_need_not_be_unicode(tmp_path: Path) -> None:
    index = SuffixIndex(MIB)
    odd: Any = bytes(tmp_path) + b"/\xff"

    for path in (str(tmp_path / "text"), tmp_path / "object", odd):
        index.save(path)
        index.load(path)

    assert len(list(tmp_path.iterdir())) == 3


def test_a_failed_save_leaves_the_old_file_and_nothing_beside_it(path: Path) -> None:
    build().save(path)
    before = path.read_bytes()
    blocker = path.with_name("snapshot.partial")
    blocker.mkdir()

    with pytest.raises(IsADirectoryError):
        SuffixIndex(MIB, salt=1).save(path)

    assert path.read_bytes() == before
    blocker.rmdir()


def test_a_save_replaces_the_old_file_and_is_for_its_owner_alone(path: Path) -> None:
    path.write_bytes(b"old")

    build().save(path)

    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["snapshot"]
    SuffixIndex(4 * MIB, salt=1).load(path)
