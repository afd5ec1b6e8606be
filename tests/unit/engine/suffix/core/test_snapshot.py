"""Saving and loading: the same drafts afterwards, and refusal of damaged files."""

import os
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.errors import SnapshotError, SuffixCapacityError
from engine.suffix import Loaded, SuffixIndex
from tests.unit.engine.suffix.conversations import BLOCK, answer, own_words

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


def assert_unchanged(index: SuffixIndex) -> None:
    """Whether it is as `build` left it."""
    assert index.stats().tokens == build().stats().tokens
    assert offers(index) == offers(build())


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
    index = SuffixIndex(MIB, salt=1)

    index.load(path)

    assert_empty(index)


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
    build().save(path)
    index = SuffixIndex(4 * MIB, salt=1)
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
def test_a_foreign_file_is_refused_and_changes_nothing(
    path: Path, content: bytes, reason: str
) -> None:
    path.write_bytes(content)
    index = build()

    with pytest.raises(SnapshotError, match=reason):
        index.load(path)

    assert_unchanged(index)


@pytest.mark.parametrize("place", [8, 12], ids=["format", "calibration"])
def test_a_file_of_another_version_is_refused(path: Path, place: int) -> None:
    build().save(path)
    content = bytearray(path.read_bytes())
    content[place] += 1
    path.write_bytes(content)

    with pytest.raises(SnapshotError, match="another version"):
        SuffixIndex(4 * MIB, salt=1).load(path)


def test_a_missing_file_is_named_and_changes_nothing(path: Path) -> None:
    index = build()

    with pytest.raises(FileNotFoundError, match="snapshot") as caught:
        index.load(path)

    assert caught.value.filename == path
    assert_unchanged(index)


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

    with pytest.raises(FileExistsError):
        SuffixIndex(MIB, salt=1).save(path)

    assert path.read_bytes() == before
    blocker.rmdir()


def test_a_save_replaces_the_old_file_and_is_for_its_owner_alone(path: Path) -> None:
    path.write_bytes(b"old")

    build().save(path)

    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["snapshot"]
    SuffixIndex(4 * MIB, salt=1).load(path)


@pytest.mark.parametrize("mode", [0o644, 0o666])
def test_what_an_interrupted_save_left_does_not_open_the_file_to_others(
    path: Path, mode: int
) -> None:
    left = path.with_name("snapshot.partial")
    left.write_bytes(b"left")
    left.chmod(mode)

    build().save(path)

    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(path: Path) -> None:
    victim = path.with_name("victim")
    victim.write_bytes(b"mine")
    path.with_name("snapshot.partial").symlink_to(victim)

    build().save(path)

    assert victim.read_bytes() == b"mine"
    assert not path.is_symlink()


def test_a_pipe_is_refused_at_once(path: Path) -> None:
    os.mkfifo(path)

    with pytest.raises(SnapshotError):
        SuffixIndex(MIB).load(path)


def test_a_file_of_another_model_is_refused_and_both_are_named(path: Path) -> None:
    build().save(path, identity="org/a\n, tokenizer 1")
    index = SuffixIndex(4 * MIB, salt=1)

    with pytest.raises(SnapshotError, match=r'"org/a\?, tokenizer 1".* this is "org/b, tok'):
        index.load(path, identity="org/b, tokenizer 2")

    assert_empty(index)
    index.load(path, identity="org/a\n, tokenizer 1")
    assert offers(index) == offers(build())


def test_a_file_of_another_vocabulary_is_refused(path: Path) -> None:
    build().save(path)
    index = SuffixIndex(4 * MIB, vocabulary=49_152)

    with pytest.raises(SnapshotError, match=r"with 2147483648 tokens.* with 49152 tokens"):
        index.load(path)

    assert_empty(index)


# Of a forged file, which has a correct checksum.
HEADER = 32
PAYLOAD_SIZE = 16


def checksum(payload: bytes) -> int:
    """The checksum of core/snapshot_file.cpp, written anew."""
    state = 0x2545F4914F6CDD1D
    words = [int.from_bytes(payload[at : at + 8], "little") for at in range(0, len(payload), 8)]
    rest = payload[len(payload) // 8 * 8 :]
    if rest:
        words[-1] = int.from_bytes(bytes([len(rest)]) + rest, "big")
    for word in words:
        product = (state ^ word) * 0x9E3779B97F4A7C15
        state = (product ^ product >> 64) & (1 << 64) - 1
        state = (state + 0xD6E8FEB86659FD93) & (1 << 64) - 1
    return state


def forged(content: bytes, at: int, change: bytes) -> bytes:
    payload = bytearray(content[HEADER:])
    payload[at : at + len(change)] = change
    sizes = struct.pack("<QQ", len(payload), checksum(bytes(payload)))
    return content[:PAYLOAD_SIZE] + sizes + bytes(payload)


def count(number: int) -> bytes:
    return struct.pack("<Q", number)


# vocabulary 0, identity 8 (empty), the first tenant's name 16 and 24 ("acme"), its calibration 28
CALIBRATION = 28


@pytest.mark.parametrize(
    ("at", "change"),
    [
        pytest.param(8, count(1 << 60), id="identity of an exabyte"),
        pytest.param(16, count(1 << 60), id="name of an exabyte"),
        pytest.param(16, count(1025), id="name over the limit"),
        pytest.param(CALIBRATION, struct.pack("<f", float("nan")), id="calibration is no number"),
        pytest.param(CALIBRATION, struct.pack("<f", float("inf")), id="calibration is infinite"),
        pytest.param(CALIBRATION + 4, struct.pack("<f", -1.0), id="calibration is negative"),
        pytest.param(-28, struct.pack("<i", -2), id="token that is none"),
        pytest.param(-24, struct.pack("<i", -(1 << 31)), id="lowest token"),
        pytest.param(-16, count(4097), id="text over the limit"),
        pytest.param(-8, count(1), id="tenant behind the last one"),
    ],
)
def test_a_forged_file_is_refused(path: Path, at: int, change: bytes) -> None:
    build().save(path)
    content = path.read_bytes()
    assert forged(content, 0, b"") == content
    at = at if at >= 0 else len(content) - HEADER + at
    path.write_bytes(forged(content, at, change))
    index = build()

    with pytest.raises(SnapshotError, match="damaged"):
        index.load(path)

    assert_unchanged(index)


def test_a_forged_file_with_a_token_outside_of_the_vocabulary_is_refused(path: Path) -> None:
    saved = SuffixIndex(MIB, vocabulary=49_152, salt=1)
    saved.start("one", "acme", [1])
    saved.extend("one", SONG)
    saved.finish("one", keep=True)
    saved.save(path)
    content = path.read_bytes()
    token = content.rindex(struct.pack("<i", SONG[-1])) - HEADER
    path.write_bytes(forged(content, token, struct.pack("<i", 122_803)))

    with pytest.raises(SnapshotError, match="impossible token"):
        saved.load(path)


def test_a_file_larger_than_the_index_is_refused_unread(path: Path) -> None:
    build().save(path)
    content = path.read_bytes()
    size = 1 << 40
    path.write_bytes(content[:PAYLOAD_SIZE] + count(size) + content[PAYLOAD_SIZE + 8 :])
    os.truncate(path, size + HEADER)  # takes no space on the disk

    with pytest.raises(SnapshotError, match="larger"):
        SuffixIndex(4 * MIB).load(path)


def test_calls_go_on_during_a_save(path: Path) -> None:
    index = SuffixIndex(64 * MIB, salt=1)
    for number in range(50):
        index.start("one", "acme", [1])
        index.extend("one", [number * 40_000 + i for i in range(40_000)])
        index.finish("one", keep=True)
    index.start("running", "acme", SONG)

    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(index.save, path)
        calls = 0
        while not saving.done():
            index.extend("running", [7])
            calls += 1
        saving.result()

    assert path.stat().st_size > 50 * 40_000 * 4
    # A save takes at least 5 ms, and a call some microseconds when it need not wait.
    assert calls > 100


def test_a_save_during_evictions_holds_whole_pieces_of_text(path: Path) -> None:
    index = SuffixIndex(4 * MIB, salt=1)
    stop = False

    def count_up() -> int:
        token = 1000
        while not stop:
            index.start("one", "acme", [1])
            index.extend("one", list(range(token, token + 5_000)))
            index.finish("one", keep=True)
            token += 5_010
        return token

    saves = []
    with ThreadPoolExecutor(1) as pool:
        counting = pool.submit(count_up)
        while index.stats().evicted_tokens == 0:
            time.sleep(0.001)
        for number in range(10):
            saves.append(path.with_name(f"{number}"))
            index.save(saves[-1])
        stop = True
        last = counting.result()

    continued = 0
    for save in saves:
        loaded = SuffixIndex(4 * MIB, salt=2)
        loaded.load(save)
        for token in range(1000, last, 497):
            loaded.start("probe", "acme", [2])
            loaded.extend("probe", list(range(token, token + 4)))
            draft = loaded.propose("probe", 100).tokens
            loaded.finish("probe", keep=False)
            assert draft == list(range(token + 4, token + 4 + len(draft)))
            continued += len(draft)
    assert index.stats().evicted_tokens > 0
    assert continued > 0


def one_answer(tenant: str, tokens: list[int]) -> SuffixIndex:
    index = SuffixIndex(4 * MIB, salt=1)
    finish_one(index, tenant, tokens)
    return index


def finish_one(index: SuffixIndex, tenant: str, tokens: list[int]) -> None:
    index.start("one", tenant, [1])
    index.extend("one", tokens)
    index.finish("one", keep=True)


def after(index: SuffixIndex, tenant: str, tokens: list[int]) -> list[int]:
    index.start("probe", tenant, [2])
    index.extend("probe", tokens)
    draft = index.propose("probe", 8).tokens
    index.finish("probe", keep=False)
    return draft


def test_loaded_answers_are_drafted_for_their_own_tenant_only(path: Path) -> None:
    one_answer("acme", SONG).save(path)
    index = one_answer("umbrella", [5, 6, 7, 8])

    index.load(path)

    assert after(index, "acme", SONG[:4]) == SONG[4:12]
    assert after(index, "umbrella", SONG[:4]) == []
    assert after(index, "umbrella", [5, 6]) == [7, 8]


def test_an_answer_in_several_files_is_added_once_for_each_tenant(tmp_path: Path) -> None:
    first = one_answer("acme", SONG)
    first.save(tmp_path / "first")
    finish_one(first, "acme", [7, 8, 9])
    finish_one(first, "umbrella", SONG)
    first.save(tmp_path / "second")
    index, loaded = SuffixIndex(4 * MIB, salt=1), Loaded()

    for name in ("first", "second", "second"):
        index.load(tmp_path / name, loaded=loaded)

    assert index.stats().tokens == first.stats().tokens


def test_the_same_answer_twice_in_one_file_counts_twice(path: Path) -> None:
    saved = one_answer("acme", SONG)
    finish_one(saved, "acme", SONG)
    saved.save(path)
    index = SuffixIndex(4 * MIB, salt=1)

    index.load(path)

    assert index.stats().tokens == saved.stats().tokens


def test_a_long_answer_is_loaded_in_pieces(path: Path) -> None:
    one_answer("acme", list(range(10, 20_010))).save(path)
    index = SuffixIndex(4 * MIB, salt=1)

    index.load(path)

    assert after(index, "acme", list(range(10_000, 10_010))) == list(range(10_010, 10_018))


def test_several_files_take_no_more_than_the_capacity(tmp_path: Path) -> None:
    index = SuffixIndex(MIB, salt=1)
    for number in range(8):
        small = SuffixIndex(MIB, salt=1)
        finish_one(small, "acme", [number * 20_000 + i for i in range(20_000)])
        small.save(tmp_path / "part")
        index.load(tmp_path / "part")

    stats = index.stats()
    assert stats.bytes <= stats.capacity_bytes
    # The newest is there, the oldest gave way.
    assert len(after(index, "acme", [150_000 + i for i in range(4)])) == 8
    assert after(index, "acme", list(range(4))) == []


def test_requests_go_on_during_a_load_and_keep_their_calibration(path: Path) -> None:
    saved = SuffixIndex(64 * MIB, salt=1)
    for number in range(50):
        finish_one(saved, "acme", [number * 40_000 + i for i in range(40_000)])
    saved.save(path)
    index = SuffixIndex(64 * MIB, salt=1)
    finish_one(index, "acme", SONG)
    index.start("running", "acme", SONG)
    index.extend("running", SONG[:8])
    calibration = index.core.calibration("acme")

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(index.load, path)
        calls = 0
        while not loading.done():
            index.extend("running", [7])
            calls += 1
        loading.result()

    assert calls > 100
    assert index.core.calibration("acme") == calibration
    index.extend("running", [1_900_000 + i for i in range(8)])
    assert index.propose("running", 4).tokens == [1_900_008 + i for i in range(4)]


def test_what_a_load_added_before_it_ran_out_of_room_is_not_added_again(tmp_path: Path) -> None:
    path = tmp_path / "tenants"
    source = SuffixIndex(4 * MIB, salt=1)
    for number in range(6):
        answer(source, f"tenant-{number}", own_words(number, 100))
    source.save(path)
    index, loaded = SuffixIndex(MIB, salt=1), Loaded()
    while index.stats().capacity_bytes - index.stats().bytes >= 14 * BLOCK:
        index.start(f"request-{index.stats().requests}", "acme", [1, 2, 3])

    counts = []
    for _ in range(3):
        with pytest.raises(SuffixCapacityError):
            index.load(path, loaded=loaded)
        counts.append(index.stats().tokens)

    assert counts[0] > 3 * index.stats().requests  # something was added
    assert len(set(counts)) == 1
