"""A training run on the disk: enough to go on as if it had never stopped."""

import os
import pickle
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from engine.errors import TrainingError


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a run has come to; the order of batches follows from the step, nothing else is drawn.

    Attributes:
        mark: Says what is trained on what; a run that is about something else must not go on here.
        step: Steps done.
        micro_batch_tokens: Positions computed at once, after memory ran out or not.
        weights: The head's state dict.
        optimizer: The optimizer's state dict.
    """

    mark: str
    step: int
    micro_batch_tokens: int
    weights: dict[str, Any]
    optimizer: dict[str, Any]


def save_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint in the place of the one before, whole or not at all.

    Raises:
        TrainingError: The disk refused.
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
    """Read the checkpoint of a run, onto the CPU; None where it has none yet.

    Raises:
        TrainingError: It is damaged, or about something else.
    """
    if not path.exists():
        return None
    try:
        stored: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        checkpoint = Checkpoint(**stored)
    except (EOFError, OSError, RuntimeError, TypeError, pickle.UnpicklingError) as exc:
        raise TrainingError(f"{path}: is no checkpoint, or damaged: {exc}") from exc
    if checkpoint.mark != mark:
        raise TrainingError(
            f"{path.parent}: was begun with another recipe, text or target: delete that folder to "
            "begin again, or give the recipe another name"
        )
    return checkpoint
