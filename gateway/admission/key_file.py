"""The file that holds the keys: one JSON object a line, hashes only, mode 0600.

Written by `specgate keys`, read by every gateway process; a change is picked up without restart.
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
    """Read all keys of a file; a file that does not exist holds none.

    Raises:
        ConfigError: A line that is not a key record, named by its number, never quoted.
        OSError: The file is there and cannot be read.
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
            # Without its cause, which would quote the line.
            raise ConfigError(f"{path}: line {number} is not a key record") from None
    return records


def add_record(path: Path, record: KeyRecord) -> None:
    """Append a key."""
    with _exclusive(path):
        _write(path, [*read_records(path), record])


def remove_record(path: Path, key_id: str) -> bool:
    """Revoke a key; False when the file has none of that id."""
    with _exclusive(path):
        records = read_records(path)
        kept = [record for record in records if record.key_id != key_id]
        if len(kept) == len(records):
            return False
        _write(path, kept)
        return True


class WatchedKeyFile:
    """A key ring that follows its file.

    `refresh` is cheap when nothing changed (one `stat`). A file that became unreadable leaves
    the last good keys in force: a slip of an operator's hand must not lock everybody out.
    """

    def __init__(self, path: Path, *, defaults: KeyLimits) -> None:
        self._path = path
        self._defaults = defaults
        self._seen = self._stamp()
        self.ring = KeyRing(read_records(path), defaults=defaults)

    def refresh(self) -> bool:
        """Read the file again if it changed; True if the ring is a new one.

        Raises:
            ConfigError: The changed file does not hold keys; the old ring stays.
            OSError: It cannot be read; likewise.
        """
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        self._seen = stamp
        self.ring = KeyRing(read_records(self._path), defaults=self._defaults)
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


def _write(path: Path, records: list[KeyRecord]) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(record)) + "\n" for record in records)
        file.flush()
        os.fsync(file.fileno())
    Path(temporary).replace(path)
