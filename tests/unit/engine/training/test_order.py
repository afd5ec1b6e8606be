import itertools
from collections.abc import Iterator

import pytest

from engine.training.order import Batch, order_batches

ROWS = [30, 7, 64]


def batches(*, seed: int = 5, window_shards: int | None = None) -> Iterator[Batch]:
    return order_batches(
        ROWS, seed=seed, run_tokens=8, batch_tokens=24, window_shards=window_shards
    )


def rows_of(batch: Batch) -> set[tuple[int, int]]:
    return {
        (batch.window[index], row)
        for index, start in batch.runs.tolist()
        for row in range(start, start + 8)
        if 0 <= row < ROWS[batch.window[index]]
    }


@pytest.mark.parametrize("window_shards", [None, 1, 2])
def test_an_epoch_sees_every_row_once(window_shards: int | None) -> None:
    seen: list[tuple[int, int]] = []

    for batch in batches(window_shards=window_shards):
        seen += rows_of(batch)
        if len(seen) >= sum(ROWS):
            break

    assert sorted(seen) == [(shard, row) for shard, rows in enumerate(ROWS) for row in range(rows)]


def test_batches_keep_their_size_and_window() -> None:
    for batch in itertools.islice(batches(window_shards=2), 30):
        assert 1 <= len(batch.runs) <= 3
        assert set(batch.runs[:, 0].tolist()) <= set(range(len(batch.window)))
