"""Training in processes of its own: killed at any moment, and shared by two."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.unit.engine.training.tiny import prepare

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
# Every step is saved, so that a kill can come between any two files.
EVERY_STEP = {"steps": 60, "checkpoint_every_steps": 1, "log_every_steps": 1}


def start(*command: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", *command], env=ENVIRONMENT, stdin=subprocess.DEVNULL
    )


def finish(*command: str | Path) -> None:
    with start(*command) as process:
        assert process.wait() == 0


def head_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "tiny" / "head").iterdir()}


def steps_of(folder: Path) -> int:
    table = folder / "tiny" / "train" / "train.csv"
    return table.read_text(encoding="utf-8").count("\n") - 1 if table.exists() else 0


def kill_after(steps: int, folder: Path, recipe: Path) -> None:
    with start("engine.training", recipe) as process:
        deadline = time.monotonic() + 90
        while steps_of(folder) < steps:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.kill()
    assert process.returncode == -signal.SIGKILL


def at(folder: Path, target: Path) -> Path:
    """The same recipe, text and target in another folder."""
    recipe = prepare(folder, train=EVERY_STEP)
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace(str(folder / "target"), str(target)), encoding="utf-8")
    return recipe


def test_a_run_that_was_killed_again_and_again_comes_to_the_same_head(tmp_path: Path) -> None:
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    finish("engine.training", prepare(unbroken, train=EVERY_STEP))

    recipe = at(broken, unbroken / "target")
    kill_after(3, broken, recipe)
    kill_after(20, broken, recipe)
    finish("engine.training", recipe)

    assert head_of(broken) == head_of(unbroken)
    assert steps_of(broken) == steps_of(unbroken) == 60


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "streamed"])
def test_two_processes_come_to_nearly_the_same_head(tmp_path: Path, stored: bool) -> None:
    alone, pair = tmp_path / "alone", tmp_path / "pair"
    hidden = {"store": stored, "window_shards": 5}
    finish("engine.training", prepare(alone, hidden=hidden), "--until", "train")

    recipe = prepare(pair, hidden=hidden)
    finish(
        "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        "-m", "engine.training", recipe,
    )  # fmt: skip

    one, other = (
        torch.load(folder / "tiny" / "train" / "checkpoint.pt")["weights"]
        for folder in (alone, pair)
    )
    for name, weight in one.items():
        torch.testing.assert_close(other[name], weight, rtol=1e-3, atol=1e-4)
    assert set(head_of(pair)) == {"README.md", "config.json", "model.safetensors"}
