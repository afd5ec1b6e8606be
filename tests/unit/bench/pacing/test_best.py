"""The best release keeps within the bound, and no other is smoother."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.pacing.best import best_gaps, taut
from bench.pacing.dialect import Arrival
from bench.pacing.figures import Played, Values, played
from bench.pacing.patterns import Chunk, Pattern

MS = 1_000_000


def sent_at(*at_ms: int, tokens: int = 1) -> Played:
    chunks = [Chunk(at * MS, "x" * tokens, tokens) for at in at_ms]
    sent_ns = [at * MS for at in at_ms]
    arrivals = [
        Arrival(at_ns, chunk.text, None) for at_ns, chunk in zip(sent_ns, chunks, strict=True)
    ]
    return played(Pattern("a", "k", chunks), [*sent_ns, sent_ns[-1]], arrivals, (sent_ns[-1], 9))


def slopes(line: Values) -> Values:
    return np.diff(line)


def test_bursts_within_the_bound_become_even() -> None:
    gaps = best_gaps(sent_at(*range(0, 4_000, 40), tokens=2))

    assert gaps.ratio("token") == pytest.approx(1.0, abs=0.1)


def test_a_stall_beyond_the_bound_remains() -> None:
    gaps = best_gaps(sent_at(*range(0, 500, 20), *range(1_500, 2_000, 20)))

    assert gaps.ms.max() > 800.0


def test_the_first_token_and_the_end_have_bounds_of_their_own() -> None:
    # The second half comes at once, and would be spread over 120 ms if only tokens had a bound.
    gaps = best_gaps(sent_at(*range(0, 1_000, 20), *[1_000] * 12))

    assert gaps.ms.sum() == pytest.approx(1_050.0, abs=1.0)


def test_the_line_is_straight_where_it_can_be() -> None:
    line = taut(np.array([0.0, 0.0, 0.0, 9.0]), np.array([0.0, 9.0, 9.0, 9.0]))

    assert list(line) == [0.0, 3.0, 6.0, 9.0]


def test_the_line_bends_at_the_border_that_it_meets() -> None:
    line = taut(np.array([0.0, 4.0, 4.0, 4.0, 4.0]), np.array([0.0, 4.0, 9.0, 9.0, 4.0]))

    assert list(line) == [0.0, 4.0, 4.0, 4.0, 4.0]


@st.composite
def tunnels(draw: st.DrawFn) -> tuple[Values, Values]:
    gaps = draw(st.lists(st.integers(0, 50), min_size=2, max_size=30))
    width = draw(st.integers(0, 60))
    least = np.cumsum([0, *gaps]).astype(float)
    most = least + width
    most[0] = 0.0
    return least, most


@given(tunnels(), st.randoms(use_true_random=False))
def test_no_other_line_within_the_bound_is_smoother(
    tunnel: tuple[Values, Values], random: Random
) -> None:
    least, most = tunnel
    best = taut(least, most)

    assert (best >= least - 1e-6).all()
    assert (best <= most + 1e-6).all()
    assert (slopes(best) >= -1e-6).all()
    bend = random.randrange(1, len(best) - 1)
    other = best.copy()
    other[bend] = min(most[bend], max(least[bend], (best[bend - 1] + best[bend + 1]) / 2))
    assert (slopes(best) ** 2).sum() <= (slopes(other) ** 2).sum() + 1e-6
