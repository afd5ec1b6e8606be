import re
from pathlib import Path

import pytest

from engine.errors import TrafficError
from engine.traffic import Seal

CONTENT = b"what somebody said" * 10
KEY = bytes(range(32))


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_content_comes_back(key: bytes | None) -> None:
    stored = Seal(key).close(CONTENT, name="a")

    assert Seal(key).open(stored, name="a") == CONTENT


def test_with_a_key_nothing_can_be_read_in_the_file() -> None:
    seal = Seal(KEY)

    stored = seal.close(CONTENT, name="a")

    assert b"somebody" not in stored
    assert seal.close(CONTENT, name="a") != stored


@pytest.mark.parametrize(
    ("written", "read"),
    [(KEY, bytes(32)), (KEY, None), (None, KEY)],
    ids=["another key", "no key", "a key for what is plain"],
)
def test_another_key_is_refused(written: bytes | None, read: bytes | None) -> None:
    stored = Seal(written).close(CONTENT, name="a")

    with pytest.raises(TrafficError):
        Seal(read).open(stored, name="a")


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
@pytest.mark.parametrize("at", [0, 7, 40, -1])
def test_a_changed_byte_is_noticed(key: bytes | None, at: int) -> None:
    stored = bytearray(Seal(key).close(CONTENT, name="a"))
    stored[at] ^= 1

    with pytest.raises(TrafficError):
        Seal(key).open(bytes(stored), name="a")


@pytest.mark.parametrize("length", [0, 3, 8, 20])
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_a_file_that_was_cut_off_is_noticed(key: bytes | None, length: int) -> None:
    stored = Seal(key).close(CONTENT, name="a")[:length]

    with pytest.raises(TrafficError):
        Seal(key).open(stored, name="a")


def test_an_encrypted_file_is_not_taken_for_another() -> None:
    stored = Seal(KEY).close(CONTENT, name="of-one-tenant")

    with pytest.raises(TrafficError):
        Seal(KEY).open(stored, name="of-another")


def test_a_key_file_has_32_bytes(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "short").write_bytes(KEY[:16])

    stored = Seal.from_file(tmp_path / "key").close(CONTENT, name="a")

    assert Seal(KEY).open(stored, name="a") == CONTENT
    with pytest.raises(TrafficError, match=re.escape("found 16 bytes, expected a key of 32")):
        Seal.from_file(tmp_path / "short")
    with pytest.raises(TrafficError, match="cannot be read"):
        Seal.from_file(tmp_path / "missing")
