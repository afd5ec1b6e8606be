"""The engine's wheel serves from an environment that has nothing else of this repository."""

from pathlib import Path

import httpx
import pytest

from tests.e2e.service import MODEL, running_service
from tests.packages import ROOT, build_wheel, run

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_engine_serves_from_its_wheel(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    gateway = build_wheel(ROOT, tmp_path / "gateway")
    engine = build_wheel(ROOT / "engine", tmp_path / "engine")
    run("scripts/install.sh", "dependencies", "engine", VENV=str(venv))
    run(venv / "bin/python", "-m", "pip", "install", "--no-deps", gateway, engine)

    with running_service(tmp_path, program=venv / "bin/specgate") as service:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello."}]}
        asked = f"{service.url}/v1/chat/completions"
        answer = httpx.post(asked, json={**body, "max_tokens": 8}, timeout=60)
        command = service.worker.cmdline()

    assert answer.json()["choices"][0]["message"]["content"]
    assert command[0].startswith(str(venv))
