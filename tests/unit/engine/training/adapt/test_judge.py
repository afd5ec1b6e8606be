from typing import Any

import pytest
import torch

from engine.heads import DraftHead, HeadConfig
from engine.training.adapt import judge as room
from engine.training.adapt.judge import judge
from engine.training.evaluation import evaluate
from engine.training.shard import Shard

VOCABULARY, HIDDEN = 24, 16
WINDOW = {"window": 5, "window_tokens": True, "attention_heads": 2, "attention_head_size": 8}


def text() -> Shard:
    """Texts in which a head with a window finds its tokens again, and one of two tokens."""
    draws = torch.Generator().manual_seed(2)
    lengths = [30, 70, 2, 40]
    tokens = torch.randint(0, 6, (sum(lengths),), generator=draws) * 4
    hidden = torch.randn(len(tokens), HIDDEN, generator=draws)
    return Shard.of(
        hidden.to(torch.bfloat16), tokens, lengths=lengths, prompts=[8, 3, 0, 39], kinds=["a"] * 4
    )


@pytest.mark.parametrize("run_rows", [7, 256])
@pytest.mark.parametrize("fields", [{}, {"window": 5}, WINDOW], ids=["none", "window", "tokens"])
def test_it_finds_what_drafting_at_each_row_finds(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], run_rows: int
) -> None:
    table = torch.randn(VOCABULARY, HIDDEN, generator=torch.Generator().manual_seed(0))
    config = HeadConfig(
        kind="gated",
        hidden_size=HIDDEN,
        vocab_size=VOCABULARY,
        inner_size=HIDDEN,
        positions=3,
        draft_vocab_size=12,
        share_output=True,
        project_output=True,
        **fields,
    )
    head = DraftHead.new(config, list(range(12)), output=table, seed=3).eval()
    monkeypatch.setattr(room, "_RUN_ROWS", run_rows)

    found = judge(head, text())
    expected = evaluate(head, [text()], device=torch.device("cpu")).total

    assert found.drafted.tolist() == expected.drafted.tolist()
    assert found.accepted.tolist() == expected.accepted.tolist()
    assert 0 < found.accepted[0] < found.drafted[0]
