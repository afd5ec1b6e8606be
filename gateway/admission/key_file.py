"""The key file: one JSON object per line, hashes only, mode 0600.

`specgate keys` writes it, and every gateway process reads it again when it changes.
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gateway.admission.keys import KeyLimits, KeyRecord, KeyRing
from gateway.errors import ConfigError

_RECORD = TypeAdapter(KeyRecord)


def read_records(path: Path) -> list[KeyRecord]:
    """Read all keys of a file; a missing file has none.

    Raises:
        ConfigError: A line is not a key record. The message has its number, not its text.
        OSError: The file exists and cannot be read.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    records = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(_RECORD.validate_json(line))
        except ValidationError:
            # The cause would quote the line.
            raise ConfigError(f"{path}: line {number} is not a key record") from None
    return records


def add_record(path: Path, record: KeyRecord) -> None:
    """Append a key."""
    with _exclusive(path):
        _write(path, [*read_records(path), record])


def remove_record(path: Path, key_id: str) -> bool:
    """Revoke a key; False if the file has no key with that id."""
    with _exclusive(path):
        records = read_records(path)
        kept = [record for record in records if record.key_id != key_id]
        if len(kept) == len(records):
            return False
        _write(path, kept)
        return True


class WatchedKeyFile:
    """A key ring that is updated when its file changes.

    `refresh` is cheap when nothing changed (one `stat`). If the file becomes unreadable, the last
    good keys stay valid, so that a mistake in the file locks nobody out.
    """

    def __init__(self, path: Path, *, defaults: KeyLimits) -> None:
        self._path = path
        self._defaults = defaults
        self._seen = self._stamp()
        self.ring = KeyRing(read_records(path), defaults=defaults)

    def refresh(self) -> bool:
        """Read the file again if it changed; True if there is a new ring.

        Raises:
            ConfigError: The changed file is damaged; the old ring stays.
            OSError: The file cannot be read; the old ring stays.
        """
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        try:
            records = read_records(self._path)
        except ConfigError:
            self._seen = stamp  # the same text stays damaged; a read that failed is tried again
            raise
        self._seen = stamp
        self.ring = KeyRing(records, defaults=self._defaults)
        return True

    def _stamp(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_size, found.st_ino)


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(path.suffix + ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _stored(record: KeyRecord) -> dict[str, object]:
    """Return a record's fields; without `admin` unless it is set, for gateways that lack it."""
    fields = asdict(record)
    if not record.admin:
        del fields["admin"]
    return fields


def _write(path: Path, records: list[KeyRecord]) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(_stored(record)) + "\n" for record in records)
        file.flush()
        os.fsync(file.fileno())
    Path(temporary).replace(path)
