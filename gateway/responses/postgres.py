"""Responses in a PostgreSQL database that all replicas share."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from gateway.errors import ConfigError
from gateway.responses import queries
from gateway.responses.store import (
    SCHEMA_VERSION,
    Bounds,
    StoredResponse,
    StoreError,
    Swept,
)

_CONNECTIONS = 4
"""Of each gateway process."""
_LOCK = 0x53504752
"""Advisory lock of whoever creates the table or sweeps it."""
_PARAMETER = re.compile(r":(\w+)")
_TABLE = """
CREATE TABLE specgate_responses (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  previous_id TEXT,
  created BIGINT NOT NULL,
  bytes BIGINT NOT NULL,
  items BYTEA NOT NULL,
  response BYTEA NOT NULL,
  UNIQUE (tenant, id)
);
"""
_MARK = f"COMMENT ON TABLE specgate_responses IS 'specgate {SCHEMA_VERSION}'"
_VERSION = """
SELECT to_regclass('specgate_responses') IS NULL,
  obj_description(to_regclass('specgate_responses'), 'pg_class')
"""
_CHECK_SECONDS = 2
_SWEEP_SECONDS = 60.0
"""A sweep reads the sizes of all rows."""
_Connection = psycopg.AsyncConnection[TupleRow]


class PostgresStore:
    """A `ResponseStore` in a database; it connects again by itself after a failure.

    Args:
        url: `postgresql://`, without a password.
        password: None: libpq looks for one itself.
        timeout_seconds: Longest wait for the database.
    """

    def __init__(self, url: str, *, password: str | None, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._is_prepared = False
        self._preparing = asyncio.Lock()
        self._pool = AsyncConnectionPool(
            url,
            kwargs=_options(password),
            min_size=0,
            max_size=_CONNECTIONS,
            timeout=timeout_seconds,
            reconnect_timeout=timeout_seconds,  # then the next call tries again
            check=AsyncConnectionPool.check_connection,
            open=False,
        )

    async def put(self, response: StoredResponse) -> bool:
        """See `ResponseStore`."""
        values = queries.put_values(response)
        async with self._connected() as db:
            return bool((await _execute(db, queries.PUT, values)).rowcount)

    async def get(self, tenant: str, id: str, *, oldest: int) -> StoredResponse | None:
        """See `ResponseStore`."""
        async with self._connected() as db:
            values = {"tenant": tenant, "id": id, "oldest": oldest}
            row = await (await _execute(db, queries.GET, values)).fetchone()
        return None if row is None else StoredResponse(*row)

    async def chain(
        self, tenant: str, id: str, *, oldest: int, most: int, most_bytes: int
    ) -> Sequence[StoredResponse]:
        """See `ResponseStore`."""
        place = {"tenant": tenant, "id": id, "oldest": oldest}
        values = {**place, "most": most, "most_bytes": most_bytes}
        async with self._connected() as db:
            rows = await (await _execute(db, queries.CHAIN, values)).fetchall()
        return [StoredResponse(*row) for row in rows]

    async def delete(self, tenant: str, id: str, *, oldest: int) -> bool:
        """See `ResponseStore`."""
        async with self._connected() as db:
            values = {"tenant": tenant, "id": id, "oldest": oldest}
            return bool((await _execute(db, queries.DELETE, values)).rowcount)

    async def sweep(self, bounds: Bounds, *, now: int) -> Swept:
        """See `ResponseStore`; replicas sweep one after another."""
        async with self._connected(_SWEEP_SECONDS) as db, db.transaction():
            await db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            expired = await _execute(db, queries.EXPIRE, {"oldest": now - bounds.ttl_seconds})
            evicted = 0
            for tenant, used in await (await db.execute(queries.USED)).fetchall():
                if used > bounds.tenant_bytes:
                    values = {"tenant": tenant, "most": bounds.tenant_bytes}
                    evicted += (await _execute(db, queries.EVICT_TENANT, values)).rowcount
            if await _used(db) > bounds.total_bytes:
                most = {"most": bounds.total_bytes}
                evicted += (await _execute(db, queries.EVICT, most)).rowcount
            return Swept(expired.rowcount, evicted, await _used(db))

    async def close(self) -> None:
        """See `ResponseStore`."""
        await self._pool.close(timeout=self._timeout_seconds)

    @asynccontextmanager
    async def _connected(self, timeout_seconds: float | None = None) -> AsyncIterator[_Connection]:
        """A connection to a database whose table is known to be there."""
        try:
            async with asyncio.timeout(timeout_seconds or self._timeout_seconds):
                if self._pool.closed:  # before the first call
                    await self._pool.open()
                async with self._pool.connection() as db:
                    await self._prepare(db)
                    yield db
        except (psycopg.Error, PoolTimeout, TimeoutError, OSError) as error:
            raise StoreError(_reason(error)) from error

    async def _prepare(self, db: _Connection) -> None:
        if self._is_prepared:
            return
        async with self._preparing, db.transaction():
            await db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            await _create_table(db)
        self._is_prepared = True


def check_database(url: str, *, password: str | None) -> None:
    """Check the version of the table, if the database answers and has one.

    Raises:
        ConfigError: The table is of another version, or the URL is none.
    """
    try:
        options = {**_options(password), "connect_timeout": _CHECK_SECONDS}
        with psycopg.connect(url, **options) as db:
            reason = _wrong_version(db.execute(_VERSION).fetchone())
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"gateway.responses.store: {_reason(error)}") from error
    except psycopg.Error:
        return  # the first sweep reports it, and later calls try again
    if reason is not None:
        raise ConfigError(f"gateway.responses.store: {reason}")


def _options(password: str | None) -> dict[str, Any]:
    given = {} if password is None else {"password": password}
    return {"autocommit": True, "application_name": "specgate", **given}


async def _create_table(db: _Connection) -> None:
    row = await (await db.execute(_VERSION)).fetchone()
    if row == (True, None):
        await db.execute(f"{_TABLE} {queries.INDEXES} {_MARK}".encode())
    elif (reason := _wrong_version(row)) is not None:
        raise StoreError(reason)


def _wrong_version(row: TupleRow | None) -> str | None:
    """Why the table cannot be used; None: it can, or it is missing."""
    is_missing, mark = row or (True, None)
    if is_missing or mark == f"specgate {SCHEMA_VERSION}":
        return None
    return (
        f"the table specgate_responses is marked {mark!r}, and this gateway reads "
        f"'specgate {SCHEMA_VERSION}'"
    )


async def _execute(
    db: _Connection, query: str, values: Mapping[str, Any]
) -> psycopg.AsyncCursor[TupleRow]:
    text = _PARAMETER.sub(r"%(\1)s", query)
    return await db.execute(text.encode(), values)  # bytes: not a literal, but a constant of ours


async def _used(db: _Connection) -> int:
    return sum(int(used) for _, used in await (await db.execute(queries.USED)).fetchall())


def _reason(error: Exception) -> str:
    """One line without what a statement was given."""
    if isinstance(error, PoolTimeout | TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
