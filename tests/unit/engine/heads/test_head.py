from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import HeadInputError
from engine.heads import Context, DraftHead
from tests.unit.engine.heads.conftest import HIDDEN, VOCAB, MakeHead

FIELDS: dict[str, dict[str, Any]] = {
    "mlp": {"kind": "mlp"},
    "mlp, deep": {"kind": "mlp", "deep_sizes": (40, 24), "deep_projection": 1},
    "mlp, shared": {"kind": "mlp", "share_embedding": True, "draft_vocab_size": 20},
    "lstm": {},
    "lstm, gates apart": {"tie_gates": False},
    "lstm, truncated": {"draft_vocab_size": 20},
    "lstm, shared embedding": {"share_embedding": True, "draft_vocab_size": 20, "tie_gates": False},
    "lstm, shared, one embedding": {"share_embedding": True},
    "lstm, narrow, all shared": {
        "share_embedding": True,
        "share_output": True,
        "draft_vocab_size": 20,
    },
    "lstm, wide, all shared": {
        "share_embedding": True,
        "share_output": True,
        "inner_size": 64,
    },
    "lstm, as wide as the target": {"share_output": True, "inner_size": HIDDEN},
    "lstm, as wide as the target, projected": {
        "share_output": True,
        "inner_size": HIDDEN,
        "project_output": True,
    },
    "gated": {"kind": "gated"},
    "gated, narrow inside": {"kind": "gated", "gated_size": 24, "draft_vocab_size": 20},
    "gated, all shared, projected": {
        "kind": "gated",
        "share_embedding": True,
        "share_output": True,
        "project_output": True,
        "inner_size": HIDDEN,
        "draft_vocab_size": 20,
    },
    "gated, not tied, not scaled": {
        "kind": "gated",
        "tie_positions": False,
        "scale_input": False,
    },
    "gated, with a window": {"kind": "gated", "window": 4, "attention_head_size": 8},
    "medusa": {"kind": "medusa"},
    "medusa, shared, truncated": {
        "kind": "medusa",
        "share_output": True,
        "draft_vocab_size": 20,
        "residual_layers": 2,
    },
    "not tied, not scaled": {"tie_positions": False, "scale_input": False},
}


@pytest.fixture(params=FIELDS.values(), ids=list(FIELDS))
def head(request: pytest.FixtureRequest, make_head: MakeHead) -> DraftHead:
    return make_head(**request.param)


def unroll_greedily(head: DraftHead, hidden: Tensor, tokens: Tensor, n: int) -> tuple[Any, Any]:
    """Draft by a full forward pass for each token."""
    sequence, confidences = tokens[:, None], []
    for position in range(n):
        probabilities = head(hidden, sequence)[position].softmax(-1)
        confidence, drafted = probabilities.max(-1)
        sequence = torch.cat([sequence, head.vocabulary.target_ids(drafted)[:, None]], 1)
        confidences.append(confidence)
    return sequence[:, 1:], torch.stack(confidences, 1)


def draw_rows(m: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(m, HIDDEN, generator=draws), torch.randint(VOCAB, (m,), generator=draws)


def look_back(head: DraftHead, hidden: Tensor, tokens: Tensor) -> Context | None:
    """Return the context of the rows of one answer; None without a window."""
    if not head.config.window:
        return None
    keys, values = (part.transpose(0, 1)[None] for part in head.entries(hidden, tokens))
    rows = len(tokens)
    keys, values = (
        torch.cat([torch.zeros_like(part[:, :, :1]), part], 2)
        for part in (keys[:, :, :-1], values[:, :, 1:])
    )
    return Context(keys, values, torch.full((1, rows, rows), float("-inf")).triu(1))


@pytest.mark.parametrize("m", [1, 2, 9])
def test_a_draft_is_the_greedy_forward_pass(head: DraftHead, m: int) -> None:
    hidden, tokens = draw_rows(m)

    drafted, confidence = head.propose(hidden, tokens, 3)

    expected, expected_confidence = unroll_greedily(head, hidden, tokens, 3)
    assert drafted.tolist() == expected.tolist()
    torch.testing.assert_close(confidence, expected_confidence, atol=1e-5, rtol=1e-4)


def test_no_rows_give_no_drafts(head: DraftHead) -> None:
    drafted, confidence = head.propose(*draw_rows(0), 3)

    assert drafted.shape == confidence.shape == (0, 3)


def test_rows_are_independent(head: DraftHead) -> None:
    hidden, tokens = draw_rows(5)

    together = head.propose(hidden, tokens, 3)
    alone = head.propose(hidden[3:4], tokens[3:4], 3)

    assert together[0][3].tolist() == alone[0][0].tolist()
    torch.testing.assert_close(together[1][3], alone[1][0], atol=1e-5, rtol=1e-4)


def test_bfloat16_changes_drafts_little(head: DraftHead) -> None:
    hidden, tokens = draw_rows(64)
    expected = head.propose(hidden, tokens, 3)

    found = [
        head.to(torch.bfloat16).propose(hidden[i : i + 8], tokens[i : i + 8], 3)
        for i in range(0, 64, 8)
    ]

    drafted, confidence = (torch.cat(part) for part in zip(*found, strict=True))
    first = drafted[:, 0] == expected[0][:, 0]
    assert float(first.float().mean()) > 0.85
    assert float((confidence[:, 0] - expected[1][:, 0])[first].abs().mean()) < 0.02


def test_every_weight_gets_a_gradient(head: DraftHead) -> None:
    hidden, tokens = draw_rows(6)
    head.train()

    logits = head(hidden, tokens[:, None].expand(-1, 3), look_back(head, hidden, tokens))
    torch.stack([scored.log_softmax(-1)[:, 0].sum() for scored in logits]).sum().backward()

    silent = [
        name
        for name, weight in head.named_parameters()
        if weight.grad is None or not bool(weight.grad.abs().sum() > 0)
    ]
    assert silent == []


@pytest.mark.parametrize("enabled", [True, False], ids=["training", "evaluation"])
def test_autocast_changes_little(head: DraftHead, enabled: bool) -> None:
    hidden, tokens = draw_rows(4)
    sequence = tokens[:, None].expand(-1, 3)
    expected = head(hidden, sequence)

    with torch.set_grad_enabled(enabled), torch.autocast("cpu", torch.bfloat16):
        found = head(hidden.bfloat16(), sequence)

    for one, other in zip(found, expected, strict=True):
        difference = (one.detach().float() - other.detach()).abs().mean()
        assert difference < 0.05 * other.detach().abs().mean() + 0.05


def test_drafts_follow_trained_weights(make_head: MakeHead) -> None:
    head = make_head()
    hidden, tokens = draw_rows(3)
    head.propose(hidden, tokens, 3)

    head.train()
    for weight in head.parameters():
        weight.data = weight.data.flip(0).contiguous()
    head.eval()

    expected, _ = unroll_greedily(head, hidden, tokens, 3)
    assert head.propose(hidden, tokens, 3)[0].tolist() == expected.tolist()


def test_a_tied_head_drafts_beyond_its_positions(make_head: MakeHead) -> None:
    head = make_head(draft_vocab_size=20)
    hidden, tokens = draw_rows(2)

    drafted, _ = head.propose(hidden, tokens, 7)

    assert drafted.tolist() == unroll_greedily(head, hidden, tokens, 7)[0].tolist()


@pytest.mark.parametrize(
    ("fields", "n"),
    [({}, 0), ({"tie_positions": False}, 4), ({"positions": 1}, 2), ({"kind": "medusa"}, 4)],
    ids=["none", "not tied", "single", "medusa"],
)
def test_invalid_lengths_are_rejected(make_head: MakeHead, fields: dict[str, Any], n: int) -> None:
    with pytest.raises(HeadInputError, match=rf"found {n} positions, expected 1 to"):
        make_head(**fields).propose(*draw_rows(1), n)


@pytest.mark.parametrize(
    ("hidden", "tokens"),
    [((2, HIDDEN + 1), (2,)), ((2, HIDDEN), (3,)), ((2, HIDDEN), (2, 1)), ((HIDDEN,), (1,))],
    ids=["width", "rows", "nested tokens", "flat"],
)
def test_mismatched_shapes_are_rejected(
    make_head: MakeHead, hidden: tuple[int, ...], tokens: tuple[int, ...]
) -> None:
    with pytest.raises(HeadInputError, match=r"found hidden"):
        make_head().propose(torch.zeros(hidden), torch.zeros(tokens, dtype=torch.int64), 1)
