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
    """A clock and the gaps that it reported."""

    def __init__(self) -> None:
        self.worker: list[float] = []
        self.client: list[float] = []
        self.clock = TokenClock(
            lambda gap, times: self.worker.extend([gap] * times),
            lambda gap, times: self.client.extend([gap] * times),
        )

    def play(self, chunks: Sequence[tuple[float, int | None, float]]) -> list[float]:
        """Let chunks come after a pause and leave after another; the times of those with text."""
        now, times = 100.0, []
        for before, tokens, after in chunks:
            now += before
            self.clock.worker.mark(tokens, now)
            now += after
            self.clock.client.mark(tokens, now)
            times += [] if tokens == 0 else [now]
        return times


@given(COUNTED_FIRST, st.lists(COUNTED, max_size=10))
def test_counted_tokens_have_a_gap_each_but_the_first_and_together_the_whole_time(
    first: tuple[float, int, float], others: list[tuple[float, int, float]]
) -> None:
    watch = Watch()
    total = sum(tokens for _, tokens, _ in [first, *others])

    times = watch.play([first, *others])
    watch.clock.finish(total)

    assert len(watch.client) == len(watch.worker) == total - 1
    assert sum(watch.client) == pytest.approx(times[-1] - times[0], abs=1e-9)


@given(st.lists(COUNTED | UNCOUNTED, max_size=10), UNCOUNTED, st.integers(2, 10))
def test_so_have_tokens_that_only_the_end_counts(
    others: list[tuple[float, int | None, float]],
    last: tuple[float, None, float],
    uncounted: int,
) -> None:
    watch = Watch()
    total = sum(tokens or 0 for _, tokens, _ in others) + uncounted

    times = watch.play([(0, None, 0), *others, last])
    watch.clock.finish(total)

    assert len(watch.client) == len(watch.worker) == total - 1
    assert sum(watch.client) == pytest.approx(times[-1] - times[0], abs=1e-9)


def test_a_chunk_of_several_tokens_is_as_many_equal_gaps() -> None:
    watch = Watch()

    watch.play([(0, 1, 0), (0.6, 3, 0)])

    assert watch.worker == pytest.approx([0.2, 0.2, 0.2])


def test_tokens_that_come_first_together_have_no_gap() -> None:
    watch = Watch()

    watch.play([(5, 3, 0)])

    assert watch.worker == [0.0, 0.0]


def test_a_chunk_without_new_tokens_shortens_no_gap() -> None:
    watch = Watch()

    watch.play([(0, 1, 0), (0.4, 0, 0), (0.2, 1, 0)])

    assert watch.worker == pytest.approx([0.6])


def test_both_sides_are_measured() -> None:
    watch = Watch()

    watch.play([(0, 1, 0), (0.2, 1, 0.3)])

    assert watch.worker == pytest.approx([0.2])
    assert watch.client == pytest.approx([0.5])


def test_without_counts_the_mean_is_observed_at_the_end() -> None:
    watch = Watch()
    watch.play([(0, None, 0), (0.5, None, 0), (0.7, None, 0)])
    assert watch.worker == []

    watch.clock.finish(5)

    assert watch.worker == pytest.approx([0.3] * 4)


def test_tokens_counted_one_by_one_are_not_observed_again_at_the_end() -> None:
    watch = Watch()
    watch.play([(0, 1, 0), (0.2, 1, 0), (0.6, None, 0)])

    watch.clock.finish(4)

    assert watch.worker == pytest.approx([0.2, 0.3, 0.3])


@pytest.mark.parametrize("tokens", [None, 0, 1], ids=str)
def test_a_stream_without_two_tokens_has_no_gap(tokens: int | None) -> None:
    watch = Watch()
    watch.play([(0, None, 0), (0.5, None, 0)])

    watch.clock.finish(tokens)

    assert watch.worker == []


def test_a_stream_without_text_has_no_gap() -> None:
    watch = Watch()

    watch.clock.finish(10)

    assert watch.worker == []
    assert watch.clock.first_token_seconds is None


def test_the_first_token_is_timed_when_it_leaves() -> None:
    watch = Watch()

    watch.play([(1, 1, 0.5), (1, 1, 0)])

    assert watch.clock.first_token_seconds == 101.5
