import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from engine.errors import TrainingError
from engine.training.group import Group
from engine.training.native import run as module
from engine.training.native.dataset import STATES, set_mark
from engine.training.native.process import FINISHED
from engine.training.native.recipe import load_native_recipe
from engine.training.native.run import NativeRun
from tests.unit.engine.training.native.small import prepare_native

ALONE = Group(0, 1, torch.device("cpu"))


class Library:
    """Stands in for the library's commands.

    Attributes:
        commands: What it was asked to do.
        epochs: How many epochs it completes.
    """

    def __init__(self) -> None:
        self.commands: list[Sequence[str]] = []
        self.epochs = 2

    def run(self, command: Sequence[str], *, log: Path, doing: str) -> None:
        self.commands.append(command)
        assert doing == "training"
        for epoch in range(self.epochs):
            folder = Path(command[command.index("--save-path") + 1], str(epoch))
            folder.mkdir(exist_ok=True)
            state = json.dumps({"epoch": epoch, "local_step": 0})
            (folder / "training_state.json").write_text(state, encoding="utf-8")
        if self.epochs == 2:
            (folder.parent / FINISHED).touch()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setattr(module, "run_library", library.run)

    def write(_rows: object, folder: Path, *, mark: str) -> None:
        (folder / STATES).mkdir(parents=True, exist_ok=True)
        set_mark(folder, mark)

    monkeypatch.setattr(module, "write_dataset", write)
    return library


def start(path: Path, group: Group = ALONE) -> NativeRun:
    recipe = load_native_recipe(path)
    assert recipe is not None
    return NativeRun(recipe, group=group)


def test_the_library_trains_on_the_targets_layers_and_only_once(
    tmp_path: Path, library: Library
) -> None:
    recipe = prepare_native(tmp_path)

    start(recipe).train()
    start(recipe).train()

    (command,) = library.commands
    said = " ".join(command)
    assert "--speculator-type eagle3" in said
    assert "--target-layer-ids 0 1 2" in said
    assert "--ttt-steps 3" in said
    assert "--draft-vocab-size 64" in said
    assert "--on-missing raise" in said


def test_training_that_ended_early_is_an_error_and_goes_on_next_time(
    tmp_path: Path, library: Library
) -> None:
    recipe = prepare_native(tmp_path)
    library.epochs = 1

    with pytest.raises(TrainingError, match="training ended early"):
        start(recipe).train()
    library.epochs = 2
    start(recipe).train()

    assert len(library.commands) == 2


def test_checkpoints_of_an_interrupted_run_are_kept_and_of_another_recipe_are_not(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = prepare_native(tmp_path)

    def interrupt(command: Sequence[str], *, log: Path, doing: str) -> None:
        for epoch in ("0", "1"):
            (tmp_path / "tiny" / "train" / epoch).mkdir()
        (tmp_path / "tiny" / "train" / "0" / "training_state.json").touch()  # 1 was not finished
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "run_library", interrupt)
        with pytest.raises(KeyboardInterrupt):
            start(recipe).train()
    library.epochs = 0

    with pytest.raises(TrainingError):
        start(recipe).train()
    assert (tmp_path / "tiny" / "train" / "0").exists()
    assert not (tmp_path / "tiny" / "train" / "1").exists()
    recipe.write_text(recipe.read_text().replace("epochs: 2", "epochs: 3"))
    with pytest.raises(TrainingError):
        start(recipe).train()
    assert not (tmp_path / "tiny" / "train" / "0").exists()


def test_a_last_epoch_that_was_not_measured_is_trained_again(
    tmp_path: Path, library: Library
) -> None:
    recipe = prepare_native(tmp_path)
    start(recipe).train()
    checkpoints = tmp_path / "tiny" / "train"
    (checkpoints / FINISHED).unlink()
    library.epochs = 0

    with pytest.raises(TrainingError):
        start(recipe).train()

    assert (checkpoints / "0").exists()
    assert not (checkpoints / "1").exists()


def test_a_block_of_dflash_begins_with_the_token_before_the_draft(
    tmp_path: Path, library: Library
) -> None:
    start(
        prepare_native(tmp_path, head={"kind": "dflash", "positions": 4, "mask_token": 5})
    ).train()

    said = " ".join(library.commands[0])
    assert "--block-size 5" in said
    assert "--mask-token-id 5" in said


def test_states_that_are_not_stored_need_no_worker_in_their_step(
    tmp_path: Path, library: Library
) -> None:
    start(prepare_native(tmp_path, hidden={"store": False})).write_states()

    assert not library.commands


def test_figures_that_the_library_left_out_are_an_error(tmp_path: Path, library: Library) -> None:
    run = start(prepare_native(tmp_path))
    run.train()

    with pytest.raises(TrainingError, match="left no figures"):
        run.evaluate()


def test_the_figures_are_those_of_the_best_epoch(tmp_path: Path, library: Library) -> None:
    run = start(prepare_native(tmp_path))
    run.train()
    checkpoints = tmp_path / "tiny" / "train"
    (checkpoints / "1" / "val_metrics.json").write_text('{"loss_epoch": 0.5}', encoding="utf-8")
    (checkpoints / "checkpoint_best").symlink_to("1")

    run.evaluate()

    found = json.loads((tmp_path / "tiny" / "evaluation.json").read_text(encoding="utf-8"))
    assert found["loss_epoch"] == 0.5


def test_torchrun_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="without torchrun"):
        start(prepare_native(tmp_path), Group(0, 2, torch.device("cpu")))
