"""Drafts are the same whether tables are folded or multiplied when drafting."""

from typing import Any

import pytest
import torch

from engine.heads import fold
from tests.unit.engine.heads.conftest import HIDDEN, VOCAB, MakeHead


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "fields",
    [
        {"draft_vocab_size": 20},
        {"draft_vocab_size": 20, "share_embedding": True, "tie_gates": False},
        {"share_embedding": True},
        {"draft_vocab_size": 20, "share_output": True},
        {"share_output": True, "inner_size": HIDDEN, "project_output": True, "kind": "gated"},
        {"kind": "medusa"},
        {"kind": "medusa", "draft_vocab_size": 20, "share_output": True, "residual_layers": 2},
    ],
    ids=[
        "own embedding",
        "shared embedding",
        "whole vocabulary",
        "shared output",
        "projected",
        "medusa",
        "medusa, shared output",
    ],
)
def test_folding_does_not_change_drafts(
    make_head: MakeHead,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    dtype: torch.dtype,
) -> None:
    hidden, tokens = torch.randn(16, HIDDEN), torch.arange(16) * 5 % VOCAB
    folded = make_head(**fields).to(dtype).propose(hidden, tokens, 3)

    monkeypatch.setattr(fold, "FOLDED_BYTES", 0)
    plain = make_head(**fields).to(dtype).propose(hidden, tokens, 3)

    is_exact = dtype == torch.float32
    same = float((folded[0][:, 0] == plain[0][:, 0]).float().mean())
    assert same == 1 if is_exact else same > 0.85
