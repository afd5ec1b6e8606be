import asyncio
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.responses import Bounds, StoreError
from gateway.responses.sqlite import SqliteStore, check_file
from tests.unit.gateway.responses.test_store import response


def _write(path: Path, text: bytes) -> None:
    path.write_bytes(text)


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (a)")
    db.close()


def _newer(path: Path) -> None:
    check_file(path)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


def _damaged(path: Path) -> None:
    async def fill() -> None:
        store = SqliteStore(path)
        for number in range(50):
            await store.put(response(f"r{number}", text=b"x" * 4000))
        await store.sweep(Bounds(10**6, 10**6, 10**6), now=1000)
        await store.close()

    asyncio.run(fill())
    content = bytearray(path.read_bytes())
    content[8192:-8192] = b"\xff" * (len(content) - 16384)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: _write(path, b"no database" * 1000), "file is not a database"),
        (_foreign, "is a database of another program"),
        (_newer, "has version 99, and this gateway reads 1"),
        (_damaged, "damaged|malformed"),
        (Path.mkdir, "Is a directory|unable to open"),
    ],
    ids=["garbage", "foreign", "newer", "damaged", "folder"],
)
def test_a_file_that_cannot_be_used_is_a_wrong_setting(
    tmp_path: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "responses.sqlite"
    spoil(path)

    with pytest.raises(ConfigError, match=reason) as caught:
        check_file(path)

    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_used_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match=r"name another one, or set gateway\.responses\.store"):
        check_file(tmp_path / "file" / "responses.sqlite")


def contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(folder.iterdir())]


async def test_only_we_can_read_the_files(tmp_path: Path) -> None:
    path = tmp_path / "new" / "responses.sqlite"
    store = SqliteStore(path)
    await store.put(response("r1"))

    modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}

    assert modes == {0o600}
    assert len(list(path.parent.iterdir())) == 3  # the log and its index beside it
    await store.close()


async def test_responses_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "responses.sqlite"
    first = SqliteStore(path)
    await first.put(response("r1"))
    await first.close()

    second = SqliteStore(path)

    assert await second.get("acme", "r1", oldest=0) == response("r1")
    await second.close()


async def test_two_connections_see_each_others_responses(tmp_path: Path) -> None:
    path = tmp_path / "responses.sqlite"
    one, other = SqliteStore(path), SqliteStore(path)

    await asyncio.gather(*(one.put(response(f"a{number}")) for number in range(50)))
    await asyncio.gather(*(other.put(response(f"b{number}")) for number in range(50)))

    assert await one.get("acme", "b49", oldest=0) is not None
    assert await other.get("acme", "a49", oldest=0) is not None
    await one.close()
    await other.close()


async def test_deleted_text_leaves_the_disk_with_the_next_sweep(tmp_path: Path) -> None:
    path = tmp_path / "responses.sqlite"
    store = SqliteStore(path)
    secret = b"a text that nobody else has"
    for number in range(100):
        await store.put(response(f"r{number}", text=secret * 100))
    before = contents(tmp_path)
    for number in range(100):
        await store.delete("acme", f"r{number}", oldest=0)

    await store.put(response("old", created=0))
    await store.sweep(Bounds(10, 10**6, 10**6), now=1000)

    after = contents(tmp_path)
    assert any(secret in content for content in before)
    assert not any(secret in content for content in after)
    assert sum(map(len, after)) < sum(map(len, before)) / 2
    await store.close()


async def test_an_error_of_the_database_is_an_error_of_the_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "responses.sqlite")
    await store.put(response("r1"))
    path = tmp_path / "responses.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE specgate_responses")
    db.close()

    with pytest.raises(StoreError, match="no such table"):
        await store.get("acme", "r1", oldest=0)
    await store.close()
