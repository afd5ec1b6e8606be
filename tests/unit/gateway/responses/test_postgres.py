import asyncio
from contextlib import suppress

import pytest

from gateway.errors import ConfigError
from gateway.responses import StoreError
from gateway.responses.postgres import PostgresStore, check_database
from tests.integration.postgres_server import PostgresServer
from tests.unit.gateway.responses.test_store import response


def open_store(server: PostgresServer, *, timeout_seconds: float = 10.0) -> PostgresStore:
    return PostgresStore(server.url, password=None, timeout_seconds=timeout_seconds)


async def test_replicas_create_the_table_at_once_and_share_it(postgres: PostgresServer) -> None:
    replicas = [open_store(postgres) for _ in range(4)]

    await asyncio.gather(*(one.put(response(f"r{n}")) for n, one in enumerate(replicas)))

    assert await replicas[0].get("acme", "r3", oldest=0) == response("r3")
    for one in replicas:
        await one.close()


async def test_a_table_of_another_version_is_refused(postgres: PostgresServer) -> None:
    check_database(postgres.url, password=None)
    store = open_store(postgres)
    await store.put(response("r1"))
    check_database(postgres.url, password=None)
    await store.close()
    postgres.execute("COMMENT ON TABLE specgate_responses IS 'specgate 99'")

    with pytest.raises(ConfigError, match="'specgate 99', and this gateway reads 'specgate 1'"):
        check_database(postgres.url, password=None)
    later = open_store(postgres)
    with pytest.raises(StoreError, match="specgate 99"):
        await later.get("acme", "r1", oldest=0)
    await later.close()


def test_a_url_that_is_none_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match=r"gateway\.responses\.store"):
        check_database("postgresql:///?nonsense=1", password=None)


def test_a_database_that_is_away_does_not_prevent_the_start() -> None:
    check_database("postgresql://nobody@/none?host=/nowhere", password="secret")


async def test_a_database_that_comes_back_is_used_again(postgres: PostgresServer) -> None:
    store = open_store(postgres, timeout_seconds=2.0)
    await store.put(response("r1"))
    postgres.kill()
    with pytest.raises(StoreError):
        await store.get("acme", "r1", oldest=0)
    postgres.start()

    for _ in range(20):
        with suppress(StoreError):
            await store.get("acme", "r1", oldest=0)
            break

    assert await store.get("acme", "r1", oldest=0) == response("r1")
    await store.close()


async def test_a_password_is_in_no_message(postgres: PostgresServer) -> None:
    store = PostgresStore(
        "postgresql://nobody@/none?host=/nowhere", password="hunter2", timeout_seconds=0.5
    )

    with pytest.raises(StoreError) as caught:
        await store.get("acme", "r1", oldest=0)

    assert "hunter2" not in str(caught.value)
    await store.close()
