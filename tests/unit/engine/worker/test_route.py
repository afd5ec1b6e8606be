from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.worker.report import Report
from engine.worker.route import SpeculationRoute


async def vllms_own(scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


async def ask(method: str, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(SpeculationRoute(vllms_own))
    async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
        return await client.request(method, path)


async def test_it_returns_the_reports_of_the_engines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    Report(tmp_path, "gate", 0).write({"price": 0.25})

    answer = await ask("GET", "/speculation")

    assert answer.status_code == 200
    assert answer.json() == {"engines": [{"engine": 0, "gate": {"price": 0.25}}]}


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/metrics"), ("POST", "/speculation")], ids=["path", "method"]
)
async def test_other_requests_are_passed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, path: str
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))

    answer = await ask(method, path)

    assert (answer.status_code, answer.text) == (418, path)
