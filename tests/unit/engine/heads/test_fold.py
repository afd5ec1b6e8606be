"""What is too large to be a table is multiplied when drafting; the drafts are the same."""

from typing import Any

import pytest
import torch

from engine.heads import Guess, HeadMemory, fold
from tests.unit.engine.heads.conftest import HIDDEN, VOCAB, MakeHead, looking_head


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "fields",
    [
        {"draft_vocab_size": 20},
        {"draft_vocab_size": 20, "share_embedding": True, "tie_gates": False},
        {"share_embedding": True},
        {"draft_vocab_size": 20, "share_output": True},
        {"share_output": True, "inner_size": HIDDEN, "project_output": True, "kind": "gated"},
    ],
    ids=["own embedding", "shared embedding", "whole vocabulary", "shared output", "projected"],
)
def test_drafts_are_the_same_however_little_is_folded(
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


def test_what_a_head_looks_at_is_drafted_the_same_however_little_is_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draws = torch.Generator().manual_seed(0)
    hidden, tokens = torch.randn(32, 32, generator=draws), torch.arange(32) * 7 % 50

    def draft() -> list[Guess]:
        head = looking_head(8, [1, 4, 9])
        memory = HeadMemory(head, requests=1, device=torch.device("cpu"))
        memory.note(["a"], [tokens.tolist()], hidden, [0])
        found: list[Guess] = head.guess(hidden, [31], [int(tokens[31])], 3, memory.view(["a"]))
        return found

    folded = draft()
    monkeypatch.setattr(fold, "FOLDED_BYTES", 0)

    assert [ids for ids, _ in draft()] == [ids for ids, _ in folded]
    assert not {1, 4, 9} >= set(folded[0][0])
