import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import JsonValue
from torch import Tensor

from engine.errors import HeadFileError, HeadInputError, HeadTargetError
from engine.heads import TargetFacts, load_head, save_head
from tests.unit.engine.heads.conftest import HIDDEN, MakeHead, WriteFolder


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "mlp", "deep_sizes": (40,), "deep_projection": 1},
        {"draft_vocab_size": 20, "share_embedding": True, "tie_gates": False},
        {"draft_vocab_size": 20, "share_embedding": True, "share_output": True},
        {"tie_positions": False, "scale_input": False},
        {"kind": "gated", "gated_size": 24},
        {"share_output": True, "inner_size": HIDDEN, "project_output": True},
        {"kind": "medusa", "draft_vocab_size": 20, "share_output": True, "residual_layers": 2},
    ],
    ids=[
        "own tables",
        "deep",
        "shared embedding",
        "all shared",
        "not tied",
        "gated",
        "projected",
        "medusa",
    ],
)
def test_a_saved_head_drafts_the_same(
    make_head: MakeHead,
    tables: dict[str, Tensor],
    target: TargetFacts,
    tmp_path: Path,
    fields: dict[str, Any],
) -> None:
    head = make_head(**fields).to(torch.bfloat16).float()
    hidden, tokens = torch.randn(3, HIDDEN), torch.tensor([0, 40, 89])

    save_head(head, tmp_path, card={"seed": 7})
    loaded = load_head(tmp_path, target, **tables)

    assert loaded.config == head.config.model_copy(update={"card": {"seed": 7}})
    torch.testing.assert_close(loaded.propose(hidden, tokens, 3), head.propose(hidden, tokens, 3))


def test_saving_twice_gives_the_same_bytes(make_head: MakeHead, tmp_path: Path) -> None:
    card: dict[str, JsonValue] = {"tokens": 3, "acceptance": [0.5, 0.25]}

    for name in ("a", "b"):
        save_head(make_head(draft_vocab_size=20), tmp_path / name, card=card)

    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["config.json", "model.safetensors"]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_head_with_nan_is_not_saved(make_head: MakeHead, tmp_path: Path) -> None:
    head = make_head()
    head.weights.cells[0].state_norm.bias.data[0] = float("nan")

    with pytest.raises(HeadInputError, match=r"cells.0.state_norm.bias: found NaN"):
        save_head(head, tmp_path / "head", card={})

    assert not (tmp_path / "head").exists()


def test_the_default_dtype_is_the_targets(
    make_head: MakeHead, target: TargetFacts, tmp_path: Path
) -> None:
    save_head(make_head(), tmp_path, card={})
    in_bfloat16 = dataclasses.replace(target, dtype=torch.bfloat16)

    assert load_head(tmp_path, in_bfloat16).weights.dtype == torch.bfloat16
    assert load_head(tmp_path, in_bfloat16, dtype=torch.float32).weights.dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"hidden_size": 64}, "config.json: .*its hidden_size is 48, the target's 64"),
        ({"vocab_size": 91}, "config.json: .*its vocab_size is 90, the target's 91"),
        (
            {"tokenizer_sha256": "b" * 64},
            "config.json: .*its tokenizer_sha256 is a+, the target's b+",
        ),
    ],
    ids=["hidden", "vocabulary", "tokenizer"],
)
def test_a_head_for_another_target_is_rejected(
    make_head: MakeHead,
    target: TargetFacts,
    tmp_path: Path,
    change: dict[str, Any],
    problem: str,
) -> None:
    save_head(make_head(tokenizer_sha256="a" * 64), tmp_path, card={})

    with pytest.raises(HeadTargetError, match=problem):
        load_head(tmp_path, dataclasses.replace(target, **change))


def test_a_missing_shared_table_is_reported(
    make_head: MakeHead, target: TargetFacts, tmp_path: Path
) -> None:
    save_head(make_head(share_embedding=True), tmp_path, card={})

    with pytest.raises(HeadTargetError, match=r"shares the target's embedding: found none"):
        load_head(tmp_path, target)


@pytest.mark.parametrize("config", [{}, {"model_type": "llama"}, {"format": "other"}], ids=str)
def test_an_unknown_kind_is_rejected(
    write_folder: WriteFolder, target: TargetFacts, config: dict[str, str]
) -> None:
    folder = write_folder(config, {"a": torch.ones(1)})

    with pytest.raises(HeadFileError, match=r"config.json: unknown kind of head"):
        load_head(folder, target)
