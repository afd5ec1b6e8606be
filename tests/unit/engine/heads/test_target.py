from typing import Any

import pytest
import torch

from engine.errors import HeadTargetError
from engine.heads import HeadConfig, SharedTables
from engine.heads.target import check_tables


def make_config(**fields: Any) -> HeadConfig:
    return HeadConfig(kind="mlp", hidden_size=4, vocab_size=10, inner_size=4, positions=2, **fields)


@pytest.mark.parametrize("table", ["embedding", "output"])
@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        (None, "found none, expected a table of at least 10 rows by 4"),
        ((9, 4), r"found shape \(9, 4\)"),
        ((10, 5), r"found shape \(10, 5\)"),
        ((40,), r"found shape \(40,\)"),
    ],
    ids=["missing", "rows", "width", "flat"],
)
def test_a_mismatched_shared_table_is_rejected(
    table: str, shape: tuple[int, ...] | None, problem: str
) -> None:
    config = make_config(**{f"share_{table}": True})
    shared = SharedTables(**{} if shape is None else {table: torch.zeros(shape)})

    with pytest.raises(HeadTargetError, match=rf"head: shares the target's {table}: {problem}"):
        check_tables(config, shared, name="head")
