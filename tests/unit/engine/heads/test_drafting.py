from typing import Any

import pytest
import torch

from tests.unit.engine.heads.conftest import HIDDEN, MakeHead


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "mlp", "draft_vocab_size": 20},
        {"kind": "gated"},
        {"kind": "medusa", "draft_vocab_size": 20},
        {"tie_gates": False, "scale_input": False},
    ],
    ids=["lstm", "mlp, truncated", "gated", "medusa", "not scaled"],
)
def test_drafting_never_reads_a_value(
    make_head: MakeHead, fields: dict[str, Any], dtype: torch.dtype
) -> None:
    """Meta tensors have no values, so code that would wait for the device fails here."""
    head = make_head(**fields).to(dtype).to("meta")

    drafted, confidence = head.propose(
        torch.empty(3, HIDDEN, device="meta"),
        torch.empty(3, dtype=torch.int64, device="meta"),
        3,
    )

    assert drafted.shape == confidence.shape == (3, 3)


def test_unaligned_rows_are_supported(make_head: MakeHead) -> None:
    """The int8 kernel needs aligned rows; a state that is not scaled is used directly."""
    head = make_head(scale_input=False).to(torch.bfloat16)
    memory = torch.randn(5 * HIDDEN + 1).bfloat16()
    hidden = memory[1 : 1 + HIDDEN].view(1, HIDDEN)

    drafted, _ = head.propose(hidden, torch.tensor([3]), 2)

    assert drafted.tolist() == head.propose(hidden.clone(), torch.tensor([3]), 2)[0].tolist()
