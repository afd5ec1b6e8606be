import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli import main

ROOT = Path(__file__).parents[4]
# The command becomes another program, so it runs in a process of its own.
COMMAND = "import sys; sys.executable = sys.argv.pop(1); from gateway.cli import main; main()"


def replaced(python: Path, *arguments: str) -> list[str]:
    """The arguments of the program that the command becomes."""
    python.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, python, "tune", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout.split()


def test_a_model_starts_from_the_profile_that_ships_for_it(tmp_path: Path) -> None:
    found = replaced(
        tmp_path / "python",
        *("smollm2-135m", "--data", "a.jsonl", "--minutes", "5", "--confirm", "2", "--fresh"),
    )

    profile = str(ROOT / "configs" / "cpu-smollm2.yaml")
    assert found == [
        *("-m", "engine.tuning", "smollm2-135m", "--data", "a.jsonl", "--minutes", "5"),
        *("--confirm", "2", "--config", profile, "--fresh"),
    ]


def test_another_model_starts_from_the_defaults(tmp_path: Path) -> None:
    found = replaced(tmp_path / "python", "org/model", "--traffic", "log.jsonl")

    assert found == ["-m", "engine.tuning", "org/model", "--traffic", "log.jsonl"]


def test_a_named_profile_is_used(tmp_path: Path) -> None:
    profile = tmp_path / "mine.yaml"
    profile.touch()

    found = replaced(
        tmp_path / "python", "org/model", "--data", "a.jsonl", "--config", str(profile)
    )

    assert found[-2:] == ["--config", str(profile)]


def test_an_unknown_profile_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tune", "m", "--data", "a.jsonl", "--config", "nothing"]) == 2

    assert "nothing: no such profile; there are cpu-qwen" in capsys.readouterr().err
