import errno
import time
from pathlib import Path

import pytest

from engine.errors import TrafficError
from engine.traffic import Ring, Seal, digest_of, list_segments, read_segment, tokens_of
from engine.traffic import ring as room
from tests.unit.engine.traffic.segments import segment

KEY = bytes(range(32))
SIZE = len(Seal().close(segment().pack(), name=""))


def make(folder: Path, *, most: int = 10 * SIZE, key: bytes | None = None) -> Ring:
    return Ring(folder, max_bytes=most, seal=Seal(key))


def write(ring: Ring, tenant: str = "acme", request: str = "r") -> bool:
    return ring.write(segment(tenant, request), began_ns=time.time_ns())


def test_the_oldest_segments_make_room(tmp_path: Path) -> None:
    ring = make(tmp_path, most=3 * SIZE)

    for number in range(5):
        write(ring, request=f"r{number}")

    requests = [read_segment(path, Seal()).request for path in list_segments(tmp_path)]
    assert requests == [digest_of(f"r{number}") for number in (2, 3, 4)]
    assert ring.bytes == sum(path.stat().st_size for path in tmp_path.iterdir()) <= 3 * SIZE


def test_files_are_for_their_owner_alone_and_tell_the_number_of_tokens(tmp_path: Path) -> None:
    folder = tmp_path / "segments"
    write(make(folder))

    (path,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    assert tokens_of(path) == 16


def test_no_text_of_an_encrypted_ring_is_on_disk(tmp_path: Path) -> None:
    written = segment()
    make(tmp_path, key=KEY).write(written, began_ns=time.time_ns())

    (path,) = tmp_path.iterdir()
    stored = path.read_bytes()
    assert written.tokens.numpy().tobytes()[:12] not in stored
    assert written.hidden.view(dtype=written.tokens.dtype).numpy().tobytes()[:12] not in stored
    assert read_segment(path, Seal(KEY)).request == written.request
    with pytest.raises(TrafficError):
        read_segment(path, Seal(bytes(32)))


def test_a_new_process_goes_on_and_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    first = make(tmp_path)
    write(first)
    (tmp_path / "0001-a-b-16.part").write_bytes(b"half")

    second = make(tmp_path, most=2 * SIZE)
    write(second)
    write(second)

    assert len(list(tmp_path.iterdir())) == 2
    assert second.bytes == 2 * SIZE


def test_a_tenant_is_forgotten_and_no_other(tmp_path: Path) -> None:
    ring = make(tmp_path)
    for tenant in ("acme", "other", "acme"):
        write(ring, tenant)

    assert ring.forget(digest_of("acme")) == 2

    (left,) = list_segments(tmp_path)
    assert read_segment(left, Seal()).tenant == digest_of("other")
    assert ring.bytes == SIZE
    assert ring.forget(None) == 1
    assert list_segments(tmp_path) == []
    assert ring.bytes == 0


def test_what_began_before_its_tenant_was_forgotten_is_not_stored(tmp_path: Path) -> None:
    ring = make(tmp_path)
    began = time.time_ns()
    ring.forget(digest_of("acme"))

    assert not ring.write(segment("acme"), began_ns=began)
    assert ring.write(segment("other"), began_ns=began)
    assert write(ring, "acme")


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = make(tmp_path)
    write(ring)

    def fail(path: Path, content: bytes) -> None:
        path.write_bytes(content[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(room, "_write_private", fail)
        with pytest.raises(OSError, match="No space left"):
            write(ring)

    assert len(list(tmp_path.iterdir())) == 1
    assert write(ring)


def test_a_segment_of_another_tenant_than_its_name_says_is_refused(tmp_path: Path) -> None:
    write(make(tmp_path))
    (path,) = list_segments(tmp_path)
    renamed = path.rename(path.with_name(path.name.replace(digest_of("acme"), digest_of("other"))))

    with pytest.raises(TrafficError, match="of another tenant"):
        read_segment(renamed, Seal())
