from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.errors import HeadFileError
from engine.heads import TargetFacts, load_head, save_head
from tests.unit.engine.heads.conftest import HIDDEN, MakeHead
from tests.unit.engine.heads.reference import GatedReference, check_logits

GATED: dict[str, dict[str, Any]] = {
    "own tables": {},
    "narrow inside": {"gated_size": 24},
    "not tied, not scaled": {"tie_positions": False, "scale_input": False},
    "all shared, projected": {
        "share_embedding": True,
        "share_output": True,
        "project_output": True,
        "inner_size": HIDDEN,
        "draft_vocab_size": 20,
    },
}


@pytest.fixture
def folder(make_head: MakeHead, tmp_path: Path) -> Path:
    save_head(make_head(draft_vocab_size=20), tmp_path, card={})
    return tmp_path


@pytest.mark.parametrize(
    ("name", "tensor", "problem"),
    [
        ("outputs.0.weight", torch.zeros(3, 3), r"outputs.0.weight: found shape \(3, 3\)"),
        ("vocabulary.ids", torch.zeros(20), "vocabulary.ids: found torch.float32"),
        (
            "vocabulary.ids",
            torch.zeros(20, dtype=torch.int32),
            "vocabulary.ids: draft ids: must be rising",
        ),
        ("more", torch.zeros(1), "more: found weights that do not belong to such a head: more"),
    ],
    ids=["shape", "dtype of ids", "ids", "left over"],
)
def test_an_invalid_tensor_is_named(
    folder: Path, target: TargetFacts, name: str, tensor: torch.Tensor, problem: str
) -> None:
    path = folder / "model.safetensors"
    save_file(load_file(path) | {name: tensor}, path)

    with pytest.raises(HeadFileError, match=problem):
        load_head(folder, target)


@pytest.mark.parametrize("fields", GATED.values(), ids=list(GATED))
def test_a_gated_head_matches_the_formulas(
    make_head: MakeHead,
    target: TargetFacts,
    tables: dict[str, torch.Tensor],
    tmp_path: Path,
    fields: dict[str, Any],
) -> None:
    save_head(make_head(kind="gated", **fields), tmp_path, card={})
    head = load_head(tmp_path, target, **tables)
    shared = tables if "share_output" in fields else {}
    formulas = GatedReference(
        load_file(tmp_path / "model.safetensors") | shared,
        positions=3,
        tied=fields.get("tie_positions", True),
        scaled=fields.get("scale_input", True),
    )

    check_logits(head, formulas)
