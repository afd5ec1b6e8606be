import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("gateway: {prot: 1}", "gateway.prot: Extra inputs are not permitted\n"),
        ("gateway: {workers: ['http://a:1'], keys: {file: /}}", "/: Is a directory\n"),
    ],
    ids=["setting", "file"],
)
def test_wrong_settings_exit_with_2_and_one_line(tmp_path: Path, profile: str, words: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(profile, encoding="utf-8")

    ended = run("--config", str(path))

    assert (ended.returncode, ended.stderr) == (2, words)
