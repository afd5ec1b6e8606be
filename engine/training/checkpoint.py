"""Checkpoints of a training run: enough to resume as if it had never stopped."""

import os
import pickle
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from engine.errors import TrainingError


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a run. The order of batches follows from the step; nothing else is random.

    Attributes:
        mark: Digest of what is trained on which data; a different run must not resume from here.
        step: Steps done.
        micro_batch_tokens: Positions computed at once; may have been halved for lack of memory.
        weights: The head's state dict.
        optimizer: The optimizer's state dict.
    """

    mark: str
    step: int
    micro_batch_tokens: int
    weights: dict[str, Any]
    optimizer: dict[str, Any]


def save_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Replace the previous checkpoint atomically.

    Raises:
        TrainingError: The file cannot be written.
    """
    scratch = path.with_suffix(".part")
    try:
        with scratch.open("wb") as file:
            torch.save({**asdict(checkpoint)}, file)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as exc:
        raise TrainingError(f"{path}: cannot be written: {exc}") from exc


def load_checkpoint(path: Path, *, mark: str) -> Checkpoint | None:
    """Read the checkpoint of a run, onto the CPU; None if there is none yet.

    Raises:
        TrainingError: It is damaged, or belongs to a different run.
    """
    if not path.exists():
        return None
    try:
        stored: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        checkpoint = Checkpoint(**stored)
    except (EOFError, OSError, RuntimeError, TypeError, pickle.UnpicklingError) as exc:
        raise TrainingError(f"{path}: not a checkpoint, or damaged: {exc}") from exc
    if checkpoint.mark != mark:
        raise TrainingError(
            f"{path.parent}: belongs to another recipe, text or target: delete that folder to "
            "start over, or rename the recipe"
        )
    return checkpoint
