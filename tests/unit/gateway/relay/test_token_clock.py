from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.relay.token_clock import TokenClock

PAUSE = st.integers(0, 1000).map(lambda milliseconds: milliseconds / 1000)
COUNTED = st.tuples(PAUSE, st.integers(0, 5), PAUSE)
COUNTED_FIRST = st.tuples(PAUSE, st.integers(1, 5), PAUSE)
UNCOUNTED = st.tuples(PAUSE, st.none(), PAUSE)


class Watch:
    """A clock and the gaps it reported."""

    def __init__(self) -> None:
        self.worker: list[float] = []
        self.client: list[float] = []
        self.clock = TokenClock(
            lambda gap, times: self.worker.extend([gap] * times),
            lambda gap, times: self.client.extend([gap] * times),
        )

    def play(self, chunks: Sequence[tuple[float, int | None, float]]) -> list[float]:
        """Play chunks as (pause, tokens, delay); the times at which text was sent."""
        now, times = 100.0, []
        for before, tokens, after in chunks:
            now += before
            self.clock.worker.mark(tokens, now)
            now += after
            self.clock.client.mark(tokens, now)
            times += [] if tokens == 0 else [now]
        return times


@pytest.mark.parametrize(
    ("chunks", "total", "worker", "client"),
    [
        ([(0, 1, 0), (0.2, 1, 0.3)], 2, [0.2], [0.5]),
        ([(0, 1, 0), (0.6, 3, 0)], 4, [0.2] * 3, [0.2] * 3),
        ([(5, 3, 0)], 3, [0.0] * 2, [0.0] * 2),
        ([(0, 1, 0), (0.4, 0, 0), (0.2, 1, 0)], 2, [0.6], [0.6]),
        ([(0, None, 0), (0.5, None, 0), (0.7, None, 0)], 5, [0.3] * 4, [0.3] * 4),
        ([(0, 1, 0), (0.2, 1, 0), (0.6, None, 0)], 4, [0.2, 0.3, 0.3], [0.2, 0.3, 0.3]),
        ([(0, None, 0), (0.5, None, 0)], None, [], []),
        ([(0, None, 0), (0.5, None, 0)], 1, [], []),
        ([], 10, [], []),
    ],
    ids=[
        *("both-sides", "several-tokens", "all-at-once", "empty-chunk", "uncounted"),
        *("partly-counted", "no-total", "one-token", "no-text"),
    ],
)
def test_gaps_are_counted_by_token(
    chunks: list[tuple[float, int | None, float]],
    total: int | None,
    worker: list[float],
    client: list[float],
) -> None:
    watch = Watch()

    watch.play(chunks)
    watch.clock.finish(total)

    assert watch.worker == pytest.approx(worker)
    assert watch.client == pytest.approx(client)
    assert (watch.clock.first_token_seconds is None) == (not chunks)


@given(COUNTED_FIRST, st.lists(COUNTED, max_size=10))
def test_gaps_of_counted_tokens_add_up(
    first: tuple[float, int, float], others: list[tuple[float, int, float]]
) -> None:
    watch = Watch()
    total = sum(tokens for _, tokens, _ in [first, *others])

    times = watch.play([first, *others])
    watch.clock.finish(total)

    assert len(watch.client) == len(watch.worker) == total - 1
    assert sum(watch.client) == pytest.approx(times[-1] - times[0], abs=1e-9)
