"""Opens the store that the settings name."""

from importlib.util import find_spec
from pathlib import Path

from gateway.errors import ConfigError
from gateway.responses.sqlite import SqliteStore, check_file
from gateway.responses.store import ResponseStore


def check_store(kind: str, path: Path, *, password: str | None) -> None:
    """Check the store before the event loop runs; a database may be away.

    Args:
        kind: `sqlite`, `off` or the URL of a PostgreSQL database.
        path: The file of `sqlite`.
        password: Of the database; None: none, or libpq finds it.

    Raises:
        ConfigError: The store cannot be used, or the driver is not installed.
    """
    if kind == "sqlite":
        check_file(path)
    elif kind != "off":
        if find_spec("psycopg_pool") is None:
            missing = "psycopg is missing: install specgate[postgres]"
            raise ConfigError(f"gateway.responses.store: {missing}")
        from gateway.responses.postgres import check_database  # an optional dependency

        check_database(kind, password=password)


def open_store(
    kind: str, path: Path, *, password: str | None, timeout_seconds: float
) -> ResponseStore | None:
    """The store; None if it is off. A database is connected to when it is first used.

    Args:
        kind: `sqlite`, `off` or the URL of a PostgreSQL database.
        path: The file of `sqlite`.
        password: Of the database; None: none, or libpq finds it.
        timeout_seconds: Longest wait for the database.

    Raises:
        ConfigError: The file cannot be used.
    """
    if kind == "off":
        return None
    if kind == "sqlite":
        return SqliteStore(path)
    from gateway.responses.postgres import PostgresStore  # an optional dependency

    return PostgresStore(kind, password=password, timeout_seconds=timeout_seconds)
