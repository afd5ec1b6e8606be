"""Heads made of the one that ships."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from engine.models import shipped_head
from tests.e2e.service import MODEL


def write_blind_head(folder: Path) -> Path:
    """Write the head without what it looks back with: one that also drafts ahead."""
    shipped = shipped_path()
    config = json.loads((shipped / "config.json").read_text(encoding="utf-8"))
    weights = load_file(shipped / "model.safetensors")
    looks_back = ("attentions.", "recorders.")
    kept = {name: weights[name] for name in weights if not name.startswith(looks_back)}
    folder.mkdir()
    save_file(kept, folder / "model.safetensors")
    blind = config | {"window": 0, "window_tokens": False}
    (folder / "config.json").write_text(json.dumps(blind), encoding="utf-8")
    return folder


def write_worse_head(folder: Path, good: Path) -> Path:
    """Write a head with noise in its weights.

    Args:
        folder: Where to.
        good: The head without.
    """
    shutil.copytree(good, folder)
    draws = torch.Generator().manual_seed(1)
    weights = load_file(folder / "model.safetensors")
    for name, tensor in weights.items():
        if tensor.is_floating_point() and tensor.ndim == 2:
            noise = torch.randn(tensor.shape, generator=draws)
            weights[name] = (tensor.float() + tensor.float().std() * noise).to(tensor.dtype)
    save_file(weights, folder / "model.safetensors")
    return folder


def shipped_path() -> Path:
    """Return the folder of the head that ships."""
    folder = shipped_head(MODEL)
    assert folder is not None
    return folder
