import errno
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from traceback import format_exception
from typing import Any

import pytest

from gateway.admission.key_file import WatchedKeyFile, add_record, read_records, remove_record
from gateway.admission.keys import KeyLimits, KeyRecord, new_key
from gateway.errors import AuthenticationError, ConfigError


def issue(
    tenant: str = "acme",
    limits: KeyLimits | None = None,
    models: tuple[str, ...] | None = None,
) -> tuple[str, KeyRecord]:
    limits = limits or KeyLimits()
    return new_key(tenant=tenant, name="n", created="today", limits=limits, models=models)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "keys.jsonl"


def test_an_added_key_is_read_back(path: Path) -> None:
    records = [
        issue(limits=KeyLimits(1, None, 3))[1],
        issue("zürich \u2028")[1],
        issue(models=("a", "b"))[1],
    ]

    for record in records:
        add_record(path, record)

    assert read_records(path) == records


def test_a_record_without_models_allows_all_of_them(path: Path) -> None:
    path.parent.mkdir()
    fields = {name: value for name, value in GOOD.items() if name != "models"}
    path.write_text(json.dumps(fields), encoding="utf-8")

    assert [record.models for record in read_records(path)] == [None]


def test_a_missing_file_has_no_keys(path: Path) -> None:
    assert read_records(path) == []


def test_only_the_owner_can_read_the_file_and_it_has_no_secret(path: Path) -> None:
    text, record = issue()
    before = os.umask(0)
    try:
        add_record(path, record)
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert text.split("-", 2)[2] not in path.read_text(encoding="utf-8")
    assert record.secret_sha256 in path.read_text(encoding="utf-8")


def test_revoking_removes_one_key(path: Path) -> None:
    kept, revoked = issue()[1], issue()[1]
    add_record(path, kept)
    add_record(path, revoked)

    assert remove_record(path, revoked.key_id)
    assert read_records(path) == [kept]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_revoking_an_unknown_key_changes_nothing(path: Path) -> None:
    add_record(path, issue()[1])
    before = path.read_bytes()

    assert not remove_record(path, "0" * 12)
    assert path.read_bytes() == before


def test_keys_added_concurrently_are_all_stored(path: Path) -> None:
    records = [issue()[1] for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda record: add_record(path, record), records))

    assert {record.key_id for record in read_records(path)} == {r.key_id for r in records}
    assert sorted(found.name for found in path.parent.iterdir()) == [
        "keys.jsonl",
        "keys.jsonl.lock",
    ]


GOOD = asdict(issue()[1])
DAMAGED: dict[str, Any] = {
    "no-json": b"{",
    "array": b"[]",
    "empty-object": b"{}",
    "not-utf-8": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "unknown-field": json.dumps({**GOOD, "root": True}).encode(),
    "no-limits": json.dumps({k: v for k, v in GOOD.items() if k != "limits"}).encode(),
    "limits-no-object": json.dumps({**GOOD, "limits": 3}).encode(),
    "unknown-limit": json.dumps({**GOOD, "limits": {"per_day": 1}}).encode(),
    "limit-in-words": json.dumps({**GOOD, "limits": {"requests_per_minute": "ten"}}).encode(),
    "limit-as-text": json.dumps({**GOOD, "limits": {"requests_per_minute": "10"}}).encode(),
    "limit-of-nothing": json.dumps({**GOOD, "limits": {"tokens_per_minute": 0}}).encode(),
    "models-no-list": json.dumps({**GOOD, "models": "m"}).encode(),
    "tenant-no-text": json.dumps({**GOOD, "tenant": 7}).encode(),
    "hash-no-hash": json.dumps({**GOOD, "secret_sha256": "é"}).encode(),
    "id-no-id": json.dumps({**GOOD, "key_id": "x"}).encode(),
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_line_is_reported_by_number_and_not_quoted(path: Path, line: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\n" + json.dumps(GOOD).encode() + b"\n" + line + b"\n")

    with pytest.raises(ConfigError) as caught:
        read_records(path)

    assert str(caught.value) == f"{path}: line 3 is not a key record"
    assert "".join(format_exception(caught.value)).count(GOOD["secret_sha256"]) == 0


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED.keys())
def test_with_a_damaged_file_the_last_good_keys_stay_valid(path: Path, line: bytes) -> None:
    text, record = issue()
    add_record(path, record)
    watched = WatchedKeyFile(path, defaults=KeyLimits())
    path.write_bytes(line)

    with pytest.raises(ConfigError):
        watched.refresh()

    assert watched.ring.recognise(f"Bearer {text}").tenant == "acme"
    assert not watched.refresh()  # told once for each change


def test_a_repaired_file_is_read_again(path: Path) -> None:
    watched = WatchedKeyFile(path, defaults=KeyLimits())
    path.parent.mkdir()
    path.write_bytes(b"{oops")
    with pytest.raises(ConfigError):
        watched.refresh()
    text, record = issue()

    path.write_text(json.dumps(asdict(record)), encoding="utf-8")

    assert watched.refresh()
    assert watched.ring.recognise(f"Bearer {text}").tenant == "acme"


def test_a_change_is_read_once(path: Path) -> None:
    watched = WatchedKeyFile(path, defaults=KeyLimits(requests_per_minute=5))
    text, record = issue()

    add_record(path, record)

    assert watched.refresh()
    assert not watched.refresh()
    assert watched.ring.recognise(f"Bearer {text}").limits == KeyLimits(requests_per_minute=5)


def test_a_revoked_key_is_refused_after_the_next_refresh(path: Path) -> None:
    text, record = issue()
    add_record(path, record)
    watched = WatchedKeyFile(path, defaults=KeyLimits())
    remove_record(path, record.key_id)

    watched.refresh()

    with pytest.raises(AuthenticationError):
        watched.ring.recognise(f"Bearer {text}")


def test_a_revocation_whose_read_fails_once_takes_effect_at_the_next_refresh(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, record = issue()
    add_record(path, record)
    watched = WatchedKeyFile(path, defaults=KeyLimits())
    remove_record(path, record.key_id)

    def no_descriptors(_: Path) -> list[KeyRecord]:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("gateway.admission.key_file.read_records", no_descriptors)
        with pytest.raises(OSError, match="Too many open files"):
            watched.refresh()

    assert watched.refresh()
    with pytest.raises(AuthenticationError):
        watched.ring.recognise(f"Bearer {text}")


def test_a_removed_file_has_no_keys(path: Path) -> None:
    add_record(path, issue()[1])
    watched = WatchedKeyFile(path, defaults=KeyLimits())
    path.unlink()

    assert watched.refresh()
    assert len(watched.ring) == 0


def test_with_an_unreadable_file_the_last_good_keys_stay_valid(path: Path) -> None:
    add_record(path, issue()[1])
    watched = WatchedKeyFile(path, defaults=KeyLimits())
    path.unlink()
    path.mkdir()

    with pytest.raises(IsADirectoryError):
        watched.refresh()

    assert len(watched.ring) == 1
