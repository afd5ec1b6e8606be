"""The order in which a head sees its text: decided by seed and step alone, and so never saved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step is trained on.

    Attributes:
        window: Shards that must be at hand for it and the next ones.
        runs: int64, [runs, 2]: place in `window`, and first row; a run may begin before the
            shard and end behind it.
    """

    window: tuple[int, ...]
    runs: NDArray[np.int64]


def order_batches(
    rows: Sequence[int], *, seed: int, run_tokens: int, batch_tokens: int, window_shards: int | None
) -> Iterator[Batch]:
    """Yield the batches of all epochs, without end.

    In each epoch the shards are cut into runs at other places, so that every row is seen once. Runs
    are mixed within windows of shards. Batches of a window have nearly the same size, which is at
    most `batch_tokens`.

    Args:
        rows: Of each shard, at least one in all.
        seed: Decides.
        run_tokens: Rows of a run.
        batch_tokens: Rows of a batch.
        window_shards: Shards of a window; None for all of them.
    """
    epoch = 0
    while True:
        draws = np.random.default_rng((seed, epoch))
        shards = draws.permutation(len(rows))
        for begin in range(0, len(rows), window_shards or len(rows)):
            window = tuple(int(n) for n in shards[begin : begin + (window_shards or len(rows))])
            runs = np.concatenate(
                [
                    _cut(place, rows[number], run_tokens, int(draws.integers(run_tokens)))
                    for place, number in enumerate(window)
                ]
            )
            runs = runs[draws.permutation(len(runs))]
            most = max(1, batch_tokens // run_tokens)
            for part in np.array_split(runs, -(-len(runs) // most)):
                yield Batch(window, part)
        epoch += 1


def _cut(place: int, rows: int, run_tokens: int, offset: int) -> NDArray[np.int64]:
    starts = np.arange(-offset, rows, run_tokens, dtype=np.int64)
    return np.stack([np.full_like(starts, place), starts], axis=1)
