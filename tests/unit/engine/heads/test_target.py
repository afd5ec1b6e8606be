import pytest
import torch

from engine.errors import HeadTargetError
from engine.heads import SharedTables
from engine.heads.target import check_tables
from tests.unit.engine.heads.conftest import small_mlp


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
    config = small_mlp(**{f"share_{table}": True})
    shared = SharedTables(**{} if shape is None else {table: torch.zeros(shape)})

    with pytest.raises(HeadTargetError, match=rf"head: shares the target's {table}: {problem}"):
        check_tables(config, shared, name="head")
