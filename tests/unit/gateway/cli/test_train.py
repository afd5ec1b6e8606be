import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli import main

ROOT = Path(__file__).parents[4]
# The command becomes another program, so it runs in a process of its own.
COMMAND = "import sys; sys.executable = sys.argv.pop(1); from gateway.cli import main; main()"


def test_the_process_is_replaced_with_the_engines(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$$ $@"; exit 7\n', encoding="utf-8")
    python.chmod(0o755)
    recipe = tmp_path / "r.yaml"
    recipe.touch()

    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, python, "train", recipe, "--until", "hidden"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        said, _ = process.communicate(timeout=30)

    assert process.returncode == 7
    assert said.split() == [
        str(process.pid),
        "-m",
        "engine.training",
        str(recipe),
        "--until",
        "hidden",
    ]


def test_an_unknown_recipe_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["train", "nothing"]) == 2

    assert "nothing: no such recipe; there are llama-3.1-8b-eagle3, " in capsys.readouterr().err
