"""The gateway's wheel, installed in an empty environment without a compiler, serves requests."""

import re
import sys
from pathlib import Path

import pytest

from tests.fakes.state import DEFAULT_MODEL
from tests.fakes.worker import FakeWorker
from tests.integration.process import gateway_process
from tests.packages import ROOT, build_wheel, run

# Only wheels may be installed; whatever wants to compile fails.
NO_COMPILER = {"CC": "/bin/false", "CXX": "/bin/false", "PIP_ONLY_BINARY": ":all:"}


@pytest.mark.timeout(180)
async def test_the_gateway_needs_neither_a_compiler_nor_torch(
    worker: FakeWorker, folder: Path, tmp_path: Path
) -> None:
    built = build_wheel(ROOT, tmp_path / "dist")
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv)
    python = venv / "bin/python"
    locked = ("--constraint", "requirements/gateway.lock")
    run(python, "-m", "pip", "install", *locked, f"{built}[tracing]", **NO_COMPILER)
    installed = run(python, "-m", "pip", "list", "--format", "freeze")

    async with gateway_process(
        folder,
        worker,
        command=(str(venv / "bin/specgate"), "serve"),
        environment={"PYTHONPATH": ""},
    ) as gateway:
        body = {"model": DEFAULT_MODEL, "messages": [{"role": "user", "content": "Hello."}]}
        answer = await gateway.client.post("/v1/chat/completions", json=body)
        page = await gateway.client.get("/")
        files = re.findall(r'"(page/[^"]+)"', page.text)
        statuses = {(await gateway.client.get(f"/{name}")).status_code for name in files}

    assert answer.status_code == 200
    assert (page.status_code, statuses) == (200, {200})
    assert "\nspecgate==" in installed
    assert "torch" not in installed
