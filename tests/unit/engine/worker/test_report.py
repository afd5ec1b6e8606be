from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.worker.report import ReportPart, SpeculationRoute, read_reports


def test_the_parts_of_all_engines_are_joined(tmp_path: Path) -> None:
    ReportPart(tmp_path, "gate", 1).write({"price": 0.5})
    ReportPart(tmp_path, "gate", 0).write({"price": 0.1})
    ReportPart(tmp_path, "acceptance", 0).write({"suffix": {"drafted": 2}})
    (tmp_path / "counter_12.db").write_bytes(b"a file of vLLM's")

    assert read_reports(tmp_path) == {
        "engines": [
            {"engine": 0, "gate": {"price": 0.1}, "acceptance": {"suffix": {"drafted": 2}}},
            {"engine": 1, "gate": {"price": 0.5}},
        ]
    }


def test_a_later_report_replaces_an_earlier_one(tmp_path: Path) -> None:
    report = ReportPart(tmp_path, "gate", 0)
    for price in (0.1, 0.2):
        report.write({"price": price})

    assert read_reports(tmp_path) == {"engines": [{"engine": 0, "gate": {"price": 0.2}}]}
    assert len(list(tmp_path.iterdir())) == 1


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
    ReportPart(tmp_path, "gate", 0).write({"price": 0.25})

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
