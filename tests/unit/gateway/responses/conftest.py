"""Both stores: SQLite in a folder of the test, and one PostgreSQL server for all tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.responses import ResponseStore
from gateway.responses.postgres import PostgresStore
from gateway.responses.sqlite import SqliteStore
from tests.integration.postgres_server import PostgresServer, running_postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> PostgresServer:
    """The server, without a table."""
    postgres_server.execute("DROP TABLE IF EXISTS specgate_responses")
    return postgres_server


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ResponseStore]:
    opened: ResponseStore
    if request.param == "sqlite":
        opened = SqliteStore(tmp_path / "responses.sqlite")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        opened = PostgresStore(server.url, password=None, timeout_seconds=10.0)
    yield opened
    await opened.close()
