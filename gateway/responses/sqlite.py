"""Responses in a SQLite file that several gateway processes of one machine share.

The connection lives in a thread of its own, so the event loop never waits for a disk. The file has
mode 0600; deleted text is overwritten.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from gateway.errors import ConfigError
from gateway.responses import queries
from gateway.responses.store import (
    SCHEMA_VERSION,
    Bounds,
    StoredResponse,
    StoreError,
    Swept,
)

T = TypeVar("T")

_APPLICATION_ID = 0x53504752  # "SPGR", in the file's header
_BUSY_SECONDS = 5.0
"""Longest wait for another process that writes."""
_TABLE = """
CREATE TABLE IF NOT EXISTS specgate_responses (
  number INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  previous_id TEXT,
  created INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  items BLOB NOT NULL,
  response BLOB NOT NULL,
  UNIQUE (tenant, id)
);
"""


class SqliteStore:
    """A `ResponseStore` in a file.

    Args:
        path: The file; it is created if it does not exist.

    Raises:
        ConfigError: It cannot be opened, is damaged, or is not ours.
    """

    def __init__(self, path: Path) -> None:
        self._connection = _open(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="responses")

    async def put(self, response: StoredResponse) -> bool:
        """See `ResponseStore`."""
        values = queries.put_values(response)
        return bool(await self._do(lambda db: db.execute(queries.PUT, values).rowcount))

    async def get(self, tenant: str, id: str, *, oldest: int) -> StoredResponse | None:
        """See `ResponseStore`."""
        values = {"tenant": tenant, "id": id, "oldest": oldest}
        row = await self._do(lambda db: db.execute(queries.GET, values).fetchone())
        return None if row is None else StoredResponse(*row)

    async def chain(
        self, tenant: str, id: str, *, oldest: int, most: int, most_bytes: int
    ) -> Sequence[StoredResponse]:
        """See `ResponseStore`."""
        place = {"tenant": tenant, "id": id, "oldest": oldest}
        values = {**place, "most": most, "most_bytes": most_bytes}
        rows = await self._do(lambda db: db.execute(queries.CHAIN, values).fetchall())
        return [StoredResponse(*row) for row in rows]

    async def delete(self, tenant: str, id: str, *, oldest: int) -> bool:
        """See `ResponseStore`."""
        values = {"tenant": tenant, "id": id, "oldest": oldest}
        return bool(await self._do(lambda db: db.execute(queries.DELETE, values).rowcount))

    async def sweep(self, bounds: Bounds, *, now: int) -> Swept:
        """See `ResponseStore`; also gives free pages back to the file system."""
        return await self._do(lambda db: _sweep(db, bounds, now))

    async def close(self) -> None:
        """See `ResponseStore`."""
        await self._do(lambda db: db.close())
        self._thread.shutdown(wait=False)

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work, self._connection)
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error


def check_file(path: Path) -> None:
    """Check a file, its pages included, and create it if it does not exist.

    Raises:
        ConfigError: It cannot be opened, is damaged, or is not ours.
    """
    with closing(_open(path)) as db:
        try:
            found = _pragma(db, "quick_check(1)")
        except sqlite3.Error as error:
            raise _unusable(path, str(error)) from error
        if found != "ok":
            raise _unusable(path, f"is damaged ({found.splitlines()[-1]}): move it away")


def _open(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(path.parent):
            if not path.exists():
                path.touch(mode=0o600)  # SQLite gives its other files the mode of this one
            path.chmod(0o600)
            connection = sqlite3.connect(
                path,
                timeout=_BUSY_SECONDS,
                isolation_level=None,  # each statement commits by itself
                check_same_thread=False,  # opened here, then used by one thread only
            )
            try:
                _prepare(connection)
            except (ConfigError, sqlite3.Error):
                connection.close()
                raise
            return connection
    except OSError as error:
        reason = error.strerror or str(error)
        elsewhere = "name another one, or set gateway.responses.store to off"
        raise _unusable(path, f"{reason}: {elsewhere}") from error
    except (ConfigError, sqlite3.Error) as error:
        raise _unusable(path, str(error)) from error


def _unusable(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"gateway.responses.path: {path}: {reason}")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time create the file: SQLite does not wait for a change of mode."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _prepare(db: sqlite3.Connection) -> None:
    """Check what the file is, and create what it lacks."""
    _pragma(db, "auto_vacuum = INCREMENTAL")  # has an effect before the first table only
    is_empty = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0
    _pragma(db, "journal_mode = WAL")
    _pragma(db, "synchronous = NORMAL")  # a crash of the machine may lose the last responses
    _pragma(db, "secure_delete = ON")
    if is_empty:
        db.executescript(
            f"BEGIN; {_TABLE} {queries.INDEXES} PRAGMA user_version = {SCHEMA_VERSION}; "
            f"PRAGMA application_id = {_APPLICATION_ID}; COMMIT"
        )
    if _pragma(db, "application_id") != _APPLICATION_ID:
        raise ConfigError("is a database of another program")
    if (version := _pragma(db, "user_version")) != SCHEMA_VERSION:
        raise ConfigError(
            f"has version {version}, and this gateway reads {SCHEMA_VERSION}: move it away"
        )


def _pragma(db: sqlite3.Connection, text: str) -> Any:
    row = db.execute(f"PRAGMA {text}").fetchone()
    return None if row is None else row[0]


def _sweep(db: sqlite3.Connection, bounds: Bounds, now: int) -> Swept:
    expired = db.execute(queries.EXPIRE, {"oldest": now - bounds.ttl_seconds}).rowcount
    evicted = 0
    for tenant, used in db.execute(queries.USED).fetchall():
        if used > bounds.tenant_bytes:
            values = {"tenant": tenant, "most": bounds.tenant_bytes}
            evicted += db.execute(queries.EVICT_TENANT, values).rowcount
    if _used(db) > bounds.total_bytes:
        evicted += db.execute(queries.EVICT, {"most": bounds.total_bytes}).rowcount
    if expired or evicted:
        db.execute("PRAGMA incremental_vacuum").fetchall()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # deleted text leaves the log, too
    return Swept(expired, evicted, _used(db))


def _used(db: sqlite3.Connection) -> int:
    return sum(used for _, used in db.execute(queries.USED))
