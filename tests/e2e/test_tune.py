"""`specgate tune` with the real worker: a profile and a page from a few prompts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.config import load_settings
from tests.e2e.service import MODEL, ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

PROMPTS = [
    "Count from one to twenty.",
    "Repeat: one two three one two three one two three one two three.",
    "Name five colours.",
]


def tune(folder: Path) -> subprocess.CompletedProcess[str]:
    data = folder / "data.jsonl"
    data.write_text("\n".join(json.dumps({"prompt": text}) for text in PROMPTS), encoding="utf-8")
    return subprocess.run(
        [
            Path(sys.executable).with_name("specgate"),
            *("tune", MODEL, "--data", data, "--out", folder / "out", "--concurrency", "1,2"),
            *("--minutes", "2", "--drafters", "off,suffix"),
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def test_a_profile_and_a_page_are_made_and_a_second_call_measures_nothing(tmp_path: Path) -> None:
    first = tune(tmp_path)
    again = tune(tmp_path)

    assert first.returncode == 0, first.stderr
    assert again.returncode == 0, again.stderr
    assert "starting a worker" not in again.stderr
    settings = load_settings(tmp_path / "out" / "profile.yaml", environ={})
    assert settings.model == MODEL
    assert settings.speculation.sources in {(), ("suffix",)}
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Recommended: " in page
    measured = json.loads((tmp_path / "out/measured/alone-suffix.json").read_text(encoding="utf-8"))
    assert measured["tokens"] > 0
    assert measured["step_ms"][0][0] == 1
    assert measured["memory_mib"] > 100
    assert sum(measured["accepted"]["suffix"]) > 0
