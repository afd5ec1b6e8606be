"""`POST /heads` of a worker."""

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.worker.head_commands import HeadCommand, read_commands
from engine.worker.head_route import HeadsRoute


async def vllms_own(scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


async def ask(method: str, path: str, **fields: Any) -> httpx.Response:
    transport = httpx.ASGITransport(HeadsRoute(vllms_own))
    async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
        return await client.request(method, path, **fields)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    return tmp_path


async def test_a_command_is_passed_on_to_the_ranks(folder: Path) -> None:
    answer = await ask("POST", "/heads", json={"action": "load", "folder": "/a/head", "by": "me"})

    assert (answer.status_code, answer.json()) == (200, {"id": "1"})
    command = HeadCommand(action="load", folder=Path("/a/head"), by="me")
    assert list(read_commands(folder, after=0)) == [(1, command)]


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"{", 400, "Invalid JSON"),
        (b'{"action": "swap"}', 400, "action: "),
        (b'{"action": "load", "folder": "x"}', 400, "absolute path"),
        (b" " * (1 << 17), 413, "larger"),
    ],
    ids=["json", "action", "folder", "length"],
)
async def test_anything_else_is_refused_in_openais_format(
    folder: Path, content: bytes, status: int, message: str
) -> None:
    answer = await ask("POST", "/heads", content=content)

    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]
    assert list(read_commands(folder, after=0)) == []


@pytest.mark.parametrize(("key", "status"), [(None, 401), ("wrong", 401), ("right", 200)])
async def test_it_needs_vllms_key_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, key: str | None, status: int
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "right")
    headers = {} if key is None else {"authorization": f"Bearer {key}"}

    answer = await ask("POST", "/heads", json={"action": "unload"}, headers=headers)

    assert answer.status_code == status


@pytest.mark.parametrize(("method", "path"), [("GET", "/heads"), ("POST", "/heads/more")])
async def test_other_requests_are_passed_on(method: str, path: str) -> None:
    answer = await ask(method, path)

    assert (answer.status_code, answer.text) == (418, path)
