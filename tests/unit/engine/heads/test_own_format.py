from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.errors import HeadFileError
from engine.heads import TargetFacts, load_head, save_head
from tests.unit.engine.heads.conftest import MakeHead


@pytest.fixture
def folder(make_head: MakeHead, tmp_path: Path) -> Path:
    save_head(make_head(draft_vocab_size=20), tmp_path, card={})
    return tmp_path


def test_unknown_setting_is_refused(folder: Path, target: TargetFacts) -> None:
    path = folder / "config.json"
    path.write_text(path.read_text("utf-8").replace('"kind"', '"kid"'), "utf-8")

    with pytest.raises(HeadFileError, match=r"config.json: kind: .*; kid: "):
        load_head(folder, target)


@pytest.mark.parametrize(
    ("name", "tensor", "problem"),
    [
        ("outputs.0.weight", torch.zeros(3, 3), r"outputs.0.weight: found shape \(3, 3\)"),
        ("vocabulary.ids", torch.zeros(20), "vocabulary.ids: found torch.float32"),
        (
            "vocabulary.ids",
            torch.zeros(20, dtype=torch.int32),
            "vocabulary.ids: draft ids: must rise",
        ),
        ("more", torch.zeros(1), "more: found weights that no such head has: more"),
    ],
    ids=["shape", "dtype of ids", "ids", "left over"],
)
def test_wrong_tensor_is_named(
    folder: Path, target: TargetFacts, name: str, tensor: torch.Tensor, problem: str
) -> None:
    path = folder / "model.safetensors"
    save_file(load_file(path) | {name: tensor}, path)

    with pytest.raises(HeadFileError, match=problem):
        load_head(folder, target)


@pytest.mark.parametrize("name", ["vocabulary.ids", "cells.0.cell_norm.bias"])
def test_missing_tensor_is_named(folder: Path, target: TargetFacts, name: str) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    del tensors[name]
    save_file(tensors, path)

    with pytest.raises(HeadFileError, match=rf"found no weight {name}"):
        load_head(folder, target)
