from types import SimpleNamespace

import pytest

from engine.worker.rows import most_verified_rows


@pytest.mark.parametrize(
    ("requests", "longest_draft", "budget", "rows"),
    [
        (128, 32, 8192, 512),
        (4, 32, 8192, 132),
        (400, 32, 8192, 800),
        (128, 32, 256, 256),
        (128, 1, 8192, 256),
    ],
    ids=["bounded", "all drafts", "two for each", "the step's budget", "vLLM's own"],
)
def test_verified_rows_are_bounded(
    requests: int, longest_draft: int, budget: int, rows: int
) -> None:
    config = SimpleNamespace(
        num_speculative_tokens=longest_draft,
        scheduler_config=SimpleNamespace(max_num_seqs=requests, max_num_batched_tokens=budget),
    )

    assert most_verified_rows(config) == rows
