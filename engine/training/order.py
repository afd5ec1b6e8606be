"""The order of training batches; it follows from seed and step alone, so it is never saved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step is trained on.

    Attributes:
        window: Shards that must be loaded for this batch and the next ones.
        runs: int64, [runs, 2]: index in `window` and first row. A run may begin before its shard
            and end after it.
    """

    window: tuple[int, ...]
    runs: NDArray[np.int64]


def order_batches(
    rows: Sequence[int], *, seed: int, run_tokens: int, batch_tokens: int, window_shards: int | None
) -> Iterator[Batch]:
    """Yield the batches of all epochs, endlessly.

    Each epoch cuts the shards into runs at different offsets and visits every row once. Runs are
    shuffled within windows of shards. The batches of a window have nearly the same size, at most
    `batch_tokens`.

    Args:
        rows: Number of rows of each shard; at least one in total.
        seed: Seed of the order.
        run_tokens: Rows per run.
        batch_tokens: Maximum rows per batch.
        window_shards: Shards per window; None for all of them.
    """
    epoch = 0
    while True:
        draws = np.random.default_rng((seed, epoch))
        shards = draws.permutation(len(rows))
        for begin in range(0, len(rows), window_shards or len(rows)):
            window = tuple(int(n) for n in shards[begin : begin + (window_shards or len(rows))])
            runs = np.concatenate(
                [
                    _cut(index, rows[number], run_tokens, int(draws.integers(run_tokens)))
                    for index, number in enumerate(window)
                ]
            )
            runs = runs[draws.permutation(len(runs))]
            most = max(1, batch_tokens // run_tokens)
            for part in np.array_split(runs, -(-len(runs) // most)):
                yield Batch(window, part)
        epoch += 1


def _cut(index: int, rows: int, run_tokens: int, offset: int) -> NDArray[np.int64]:
    starts = np.arange(-offset, rows, run_tokens, dtype=np.int64)
    return np.stack([np.full_like(starts, index), starts], axis=1)
