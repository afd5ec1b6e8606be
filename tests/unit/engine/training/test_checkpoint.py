from pathlib import Path

import pytest
import torch

from engine.errors import TrainingError
from engine.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint("m", step, 64, {"w": torch.ones(3)}, {"state": {0: torch.zeros(2)}})


def test_the_last_checkpoint_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"

    save_checkpoint(checkpoint(1), path)
    save_checkpoint(checkpoint(2), path)
    found = load_checkpoint(path, mark="m")

    assert found is not None
    assert (found.step, found.micro_batch_tokens) == (2, 64)
    assert torch.equal(found.weights["w"], torch.ones(3))
    assert [left.name for left in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_checkpoint_of_another_run_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(checkpoint(1), path)

    with pytest.raises(TrainingError, match="belongs to another recipe"):
        load_checkpoint(path, mark="n")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 cut off"])
def test_a_damaged_checkpoint_is_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(content)

    with pytest.raises(TrainingError, match="not a checkpoint, or damaged"):
        load_checkpoint(path, mark="m")
