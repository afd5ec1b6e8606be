"""What is in examples/, run as its README says against the real service."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.service import MODEL, ROOT, Service
from tests.e2e.test_node import HERE as NODE_TESTS
from tests.e2e.test_node import needs_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

EXAMPLES = ROOT / "examples"


def run(service: Service, *command: str | Path, folder: Path) -> str:
    """What the command prints; it must end with status 0."""
    ran = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "OPENAI_BASE_URL": f"{service.url}/v1", "MODEL": MODEL},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def number(pattern: str, text: str) -> int:
    """The number that the pattern finds."""
    found = re.search(pattern, text)
    assert found, text
    return int(found[1])


def test_prediction(service: Service, tmp_path: Path) -> None:
    printed = run(service, sys.executable, EXAMPLES / "prediction.py", folder=tmp_path)

    assert "def area(" in printed
    assert number(r"of the prediction (\d+) accepted", printed) > 0


def test_edit_loop(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "numbers.py"
    before = "".join(f"def double_{n}(x):\n    return x * {n}\n\n\n" for n in range(2, 6))
    file.write_text(before, encoding="utf-8")

    printed = run(
        service,
        *(sys.executable, EXAMPLES / "edit_loop.py", file, "Repeat this file, unchanged."),
        folder=tmp_path,
    )

    assert number(r"(\d+) from the prediction", printed) > 0
    assert "return x * 2" in file.read_text(encoding="utf-8")


def test_langchain(service: Service, tmp_path: Path) -> None:
    printed = run(service, sys.executable, EXAMPLES / "langchain_chat.py", folder=tmp_path)

    assert number(r"(\d+) tokens", printed) > 5


@needs_node
def test_vercel_ai(service: Service, tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "vercel-ai", tmp_path / "vercel-ai")
    (folder / "node_modules").symlink_to(NODE_TESTS / "node_modules")

    assert number(r"(\d+) tokens", run(service, "node", "chat.mjs", folder=folder)) > 5
