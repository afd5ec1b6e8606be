from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.responses import check_store, open_store
from gateway.responses.postgres import PostgresStore
from gateway.responses.sqlite import SqliteStore


def test_off_needs_nothing(tmp_path: Path) -> None:
    check_store("off", tmp_path / "none", password=None)

    assert open_store("off", tmp_path / "none", password=None, timeout_seconds=1.0) is None
    assert list(tmp_path.iterdir()) == []


async def test_each_kind_has_its_store(tmp_path: Path) -> None:
    path, url = tmp_path / "responses.sqlite", "postgresql://nobody@/none?host=/nowhere"
    for kind, wanted in (("sqlite", SqliteStore), (url, PostgresStore)):
        check_store(kind, path, password=None)
        store = open_store(kind, path, password=None, timeout_seconds=1.0)

        assert type(store) is wanted
        await store.close()


def test_a_missing_driver_is_a_wrong_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.responses.opening.find_spec", lambda name: None)

    with pytest.raises(ConfigError, match=r"install specgate\[postgres\]"):
        check_store("postgresql://host/name", tmp_path, password=None)
