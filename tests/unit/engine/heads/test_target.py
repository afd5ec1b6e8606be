import dataclasses
from typing import Any

import pytest
import torch

from engine.errors import HeadTargetError
from engine.heads import HeadConfig, SharedTables, TargetFacts
from engine.heads.target import check_tables, check_target

SHA = "a" * 64


def make_config(**fields: Any) -> HeadConfig:
    return HeadConfig(kind="mlp", hidden_size=4, vocab_size=10, inner_size=4, positions=2, **fields)


TARGET = TargetFacts(4, 10, SHA, torch.float32, torch.device("cpu"))


@pytest.mark.parametrize("sha", [None, SHA])
def test_head_of_this_target_passes(sha: str | None) -> None:
    check_target(make_config(tokenizer_sha256=sha), TARGET, name="head")
    check_target(
        make_config(tokenizer_sha256=sha),
        dataclasses.replace(TARGET, tokenizer_sha256=None),
        name="head",
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"hidden_size": 5}, "head: .*found hidden_size 4, the target has 5"),
        ({"vocab_size": 11}, "head: .*found vocab_size 10, the target has 11"),
        ({"tokenizer_sha256": "b" * 64}, "head: .*found tokenizer_sha256 a+, the target has b+"),
    ],
    ids=["hidden", "vocabulary", "tokenizer"],
)
def test_head_of_another_target_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(HeadTargetError, match=problem):
        check_target(
            make_config(tokenizer_sha256=SHA), dataclasses.replace(TARGET, **change), name="head"
        )


@pytest.mark.parametrize("table", ["embedding", "output"])
@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        (None, "found none, expected a table of 10 or more rows by 4"),
        ((9, 4), r"found shape \(9, 4\)"),
        ((10, 5), r"found shape \(10, 5\)"),
        ((40,), r"found shape \(40,\)"),
    ],
    ids=["missing", "rows", "width", "flat"],
)
def test_shared_table_that_does_not_fit_is_refused(
    table: str, shape: tuple[int, ...] | None, problem: str
) -> None:
    config = make_config(**{f"share_{table}": True})
    shared = SharedTables(**{} if shape is None else {table: torch.zeros(shape)})

    with pytest.raises(HeadTargetError, match=rf"head: shares the target's {table}: {problem}"):
        check_tables(config, shared, name="head")


def test_table_of_integers_is_refused() -> None:
    shared = SharedTables(embedding=torch.zeros(10, 4, dtype=torch.int8))

    with pytest.raises(HeadTargetError, match=r"found torch.int8"):
        check_tables(make_config(share_embedding=True), shared, name="head")


def test_table_with_padding_passes() -> None:
    check_tables(
        make_config(share_output=True), SharedTables(output=torch.zeros(64, 4)), name="head"
    )
