import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError
from starlette.routing import Route

from gateway.app import create_app
from gateway.errors import ConfigError
from gateway.settings import GatewaySettings
from tests.fakes.keys import issue_key
from tests.fakes.worker import FakeWorker
from tests.unit.gateway.application import running
from tests.unit.gateway.json_log import json_log

UNREACHABLE = "http://127.0.0.1:1"


def write_oops(path: Path) -> None:
    path.write_text("oops\n", encoding="utf-8")


@pytest.mark.parametrize("make", [lambda _: None, Path.touch], ids=["missing", "empty"])
def test_a_key_file_without_keys_is_reported(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "keys"
    make(path)
    settings = GatewaySettings.model_validate({"workers": [UNREACHABLE], "keys": {"file": path}})

    with json_log("warning") as log:
        create_app(settings, registry=CollectorRegistry())

    (line,) = log.of("keys_missing")
    assert line["create"] == f"specgate keys create --tenant NAME --file {path}"


def test_a_key_file_with_keys_is_not_reported(tmp_path: Path) -> None:
    issue_key(tmp_path / "keys")
    keys = {"file": tmp_path / "keys"}
    settings = GatewaySettings.model_validate({"workers": [UNREACHABLE], "keys": keys})

    with json_log("warning") as log:
        create_app(settings, registry=CollectorRegistry())

    assert log.lines() == []


@pytest.mark.parametrize(
    ("section", "field", "make", "words"),
    [
        ("keys", "file", write_oops, "line 1 is not a key record"),
        ("keys", "file", Path.mkdir, "Is a directory"),
        ("upstream", "api_key_file", Path.touch, "is empty"),
        ("upstream", "api_key_file", Path.mkdir, "Is a directory"),
    ],
    ids=["damaged-keys", "keys-folder", "empty-secret", "secret-folder"],
)
def test_an_invalid_file_is_found_before_the_start(
    tmp_path: Path, section: str, field: str, make: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / "file"
    make(path)
    settings = GatewaySettings.model_validate({"workers": [UNREACHABLE], section: {field: path}})

    with pytest.raises(ConfigError, match=words):
        create_app(settings, registry=CollectorRegistry())


async def test_configured_paths_are_forwarded() -> None:
    async with FakeWorker() as worker, running(worker.url) as gateway:
        answer = await gateway.client.post("/v1/score", content=b'{"x": 1.0}')
        unknown = await gateway.client.post("/v1/unheard-of", content=b"{}")

    assert (answer.status_code, unknown.status_code) == (404, 404)
    assert answer.json()["error"]["message"] != unknown.json()["error"]["message"]


def test_no_path_of_ours_can_be_forwarded_instead() -> None:
    app = create_app(
        GatewaySettings(workers=(UNREACHABLE,), forward_paths=()), registry=CollectorRegistry()
    )
    paths = {route.path for route in app.routes if isinstance(route, Route)}

    assert {"/v1/chat/completions", "/metrics", "/health/ready", "/page/main.js"} <= paths
    for path in paths - {"/"}:  # which is no path that can be forwarded
        with pytest.raises(ValidationError, match="is served by the gateway itself"):
            GatewaySettings(forward_paths=(re.sub(r"\{.*?\}", "x", path),))


async def test_there_are_no_documentation_pages() -> None:
    async with running(UNREACHABLE, ready=False) as gateway:
        statuses = [(await gateway.client.get(path)).status_code for path in ("/docs", "/redoc")]

    assert statuses == [404, 404]
