from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import JsonValue

from engine.worker.report import ReportPart, SpeculationRoute, read_reports
from engine.worker.verdicts import describe_sources

OFF = describe_sources({})


def test_the_parts_of_all_engines_are_joined(tmp_path: Path) -> None:
    ReportPart(tmp_path, "exactness", 1).write({"kernel": "b"})
    ReportPart(tmp_path, "exactness", 0).write({"kernel": "a"})
    ReportPart(tmp_path, "acceptance", 0).write({"suffix": {"drafted": 2}})
    (tmp_path / "counter_12.db").write_bytes(b"a file of vLLM's")

    first: dict[str, JsonValue] = {
        "exactness": {"kernel": "a"},
        "acceptance": {"suffix": {"drafted": 2}},
    }
    second: dict[str, JsonValue] = {"exactness": {"kernel": "b"}}
    assert read_reports(tmp_path) == {
        "engines": [
            {"engine": 0, **first, "sources": describe_sources(first)},
            {"engine": 1, **second, "sources": describe_sources(second)},
        ]
    }


def test_a_later_report_replaces_an_earlier_one(tmp_path: Path) -> None:
    report = ReportPart(tmp_path, "exactness", 0)
    for kernel in ("a", "b"):
        report.write({"kernel": kernel})

    found = read_reports(tmp_path)
    assert found == {"engines": [{"engine": 0, "exactness": {"kernel": "b"}, "sources": OFF}]}
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
    ReportPart(tmp_path, "exactness", 0).write({"kernel": "a"})

    answer = await ask("GET", "/speculation")

    assert answer.status_code == 200
    engine = {"engine": 0, "exactness": {"kernel": "a"}, "sources": OFF}
    assert answer.json() == {"engines": [engine]}


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/metrics"), ("POST", "/speculation")], ids=["path", "method"]
)
async def test_other_requests_are_passed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, path: str
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))

    answer = await ask(method, path)

    assert (answer.status_code, answer.text) == (418, path)
