import importlib.util
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml

from engine.training.__main__ import main
from engine.training.native.run import NativeRun
from engine.training.run import Run
from engine.training.steps import Step
from tests.unit.engine.training.native.small import prepare_native
from tests.unit.engine.training.tiny import prepare


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Restore what the command sets for the whole process."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


def test_until_names_the_last_step(tmp_path: Path) -> None:
    recipe = prepare(tmp_path)

    assert main([str(recipe), "--until", "hidden"]) == 0

    assert (tmp_path / "tiny" / "states").is_dir()
    assert not (tmp_path / "tiny" / "train").exists()


def test_a_recipe_to_start_from_runs_first_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare(tmp_path)
    document = yaml.safe_load(first.read_text(encoding="utf-8"))
    train = {**document["train"], "start_from": "tiny"}
    second = tmp_path / "second.yaml"
    second.write_text(yaml.safe_dump({**document, "name": "second", "train": train}))
    first.rename(tmp_path / "tiny.yaml")
    done: list[tuple[str, str]] = []

    def carry_out(self: Run, until: Step) -> None:
        done.append((self._recipe.name, until))
        self._recipe.head_folder.mkdir(parents=True)
        (self._recipe.head_folder / "config.json").touch()

    monkeypatch.setattr(Run, "carry_out", carry_out)

    assert main([str(second), "--until", "train"]) == 0
    assert done == [("tiny", "export"), ("second", "train")]

    shutil.rmtree(tmp_path / "second")
    assert main([str(second)]) == 0
    assert done[2:] == [("second", "export")]


def test_an_invalid_recipe_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = prepare(tmp_path, train={"steps": 0, "epochs": 3})

    assert main([str(recipe)]) == 2

    said = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[2] for line in said] == ["train.steps", "train.epochs"]


def test_a_missing_extra_names_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = prepare_native(tmp_path)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "speculators" else found(name)
    )

    assert main([str(recipe)]) == 1

    said = capsys.readouterr().err
    assert "training requires speculators" in said
    assert "make install-train" in said


def test_vllms_drafters_are_trained_by_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Step] = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr(NativeRun, "carry_out", lambda _, until: done.append(until))

    assert main([str(prepare_native(tmp_path)), "--until", "hidden"]) == 0

    assert done == ["hidden"]


def test_a_failed_step_is_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = prepare(tmp_path, documents=20)

    assert main([str(recipe)]) == 1

    assert "increase text.tokens" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
)
def test_a_signal_stops_the_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    status: int,
) -> None:
    recipe = prepare(tmp_path)
    monkeypatch.setattr(Run, "carry_out", lambda *_: signal.raise_signal(number))

    assert main([str(recipe)]) == status

    assert "run the same command again to resume" in capsys.readouterr().err
