import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway.assembly.process import ProcessContext, tenant_secret
from gateway.errors import ConfigError
from gateway.settings import GatewaySettings

ALONE = ProcessContext()
WORKERS = ("http://127.0.0.1:1",)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "specgate"


def test_the_secret_of_the_settings_is_used(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n", encoding="utf-8")

    settings = GatewaySettings(workers=WORKERS, tenant_secret_file=tmp_path / "secret")

    assert tenant_secret(settings, ALONE) == b"s3cret"


def test_without_the_setting_each_gateway_has_its_own_secret() -> None:
    secrets = {tenant_secret(GatewaySettings(workers=WORKERS), ALONE) for _ in range(2)}

    assert {len(secret) for secret in secrets} == {32}
    assert len(secrets) == 2


def test_the_processes_of_a_gateway_have_the_same_secret(tmp_path: Path) -> None:
    settings = GatewaySettings(workers=WORKERS, processes=3)

    secrets = {
        tenant_secret(settings, ProcessContext(index, socket_dir=tmp_path)) for index in range(3)
    }

    assert len(secrets) == 1


def test_a_gateway_with_its_own_worker_keeps_the_secret(cache: Path, tmp_path: Path) -> None:
    first, second = (
        tenant_secret(GatewaySettings(), ProcessContext(socket_dir=tmp_path)) for _ in range(2)
    )

    assert first == second == (cache / "tenant-secret").read_bytes()
    assert [path.name for path in cache.iterdir()] == ["tenant-secret"]
    assert stat.S_IMODE((cache / "tenant-secret").stat().st_mode) == 0o600


def test_a_cache_folder_that_cannot_be_written_is_a_wrong_setting(cache: Path) -> None:
    cache.parent.mkdir()
    cache.touch()

    with pytest.raises(ConfigError, match="tenant-secret"):
        tenant_secret(GatewaySettings(), ALONE)


@pytest.mark.parametrize(
    ("keys", "process", "told"),
    [({"file": "keys"}, ALONE, 1), ({}, ALONE, 0), ({"file": "keys"}, ProcessContext(1), 0)],
    ids=["keys", "no-keys", "another-process"],
)
def test_a_random_secret_is_said_once_if_there_are_tenants(
    keys: Mapping[str, Any], process: ProcessContext, told: int
) -> None:
    settings = GatewaySettings.model_validate({"workers": WORKERS, "keys": keys})

    with structlog.testing.capture_logs() as logs:
        tenant_secret(settings, process)

    assert [line["event"] for line in logs] == ["tenant_secret_is_random"] * told
