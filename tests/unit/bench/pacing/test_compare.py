"""What a mode adds is told token by token and stream by stream, against the same without it."""

import numpy as np
import pytest

from bench.pacing.compare import added, evenness, long_enough, pairs_of, uneven
from bench.pacing.dialect import Arrival
from bench.pacing.figures import Gaps, Played, gaps_of, played
from bench.pacing.patterns import Chunk, Pattern

MS = 1_000_000


def stream(
    *, tokens: int = 4, gap_ms: float = 10.0, way_ms: float = 1.0, size: int = 100
) -> Played:
    sent_ns = [int(number * gap_ms * MS) for number in range(tokens)]
    pattern = Pattern("a", "k", [Chunk(at_ns, "x", 1) for at_ns in sent_ns])
    arrivals = [Arrival(int(at_ns + way_ms * MS), "x", None) for at_ns in sent_ns]
    end_ns = sent_ns[-1] + int(2 * way_ms * MS)
    return played(pattern, [*sent_ns, sent_ns[-1]], arrivals, (end_ns, size))


def three_tokens_at(*at_ms: int) -> Gaps:
    return gaps_of(np.array(at_ms) * MS, np.array([1.0, 2.0, 3.0]), np.array([1, 2, 3]))


def test_what_is_added_is_the_difference() -> None:
    found = added([(stream(way_ms=1.0), stream(way_ms=31.0, size=150))] * 3)

    assert found.delay_ms_p50 == pytest.approx(30.0)
    assert found.delay_ms_max == pytest.approx(30.0)
    assert found.first_token_ms_p99 == pytest.approx(30.0)
    assert found.end_ms_p99 == pytest.approx(60.0)
    assert found.bytes_ratio == 1.5


def test_noise_of_other_streams_is_not_added_to_the_first_token() -> None:
    calm, noisy = stream(way_ms=1.0), stream(way_ms=9.0)

    found = added([(calm, noisy), (noisy, calm)])

    assert found.first_token_ms_p99 == 0.0
    assert found.first_token_ms_paired_p99 == pytest.approx(8.0)


def test_a_stream_that_failed_in_one_mode_is_compared_in_none() -> None:
    one = stream()

    assert pairs_of([one, None, one], [None, one, one]) == [(one, one)]


def test_nothing_has_no_figures() -> None:
    found = added([])

    assert found.delay_ms_p99 is None
    assert found.first_token_ms_p99 is None
    assert found.bytes_ratio is None


def test_evenness_is_the_median_over_streams() -> None:
    gaps = [three_tokens_at(0, 10, 10 + second) for second in (10, 20, 90)]

    found = evenness(gaps)

    assert found.token_ratio == pytest.approx(2.0)
    assert found.tokens_per_piece == 1.0


def test_streams_without_gaps_do_not_count() -> None:
    alone = gaps_of(np.array([5]), np.array([3.0]), np.array([9]))

    assert evenness([alone]).token_ratio is None
    assert evenness([alone, three_tokens_at(0, 10, 30)]).token_ratio == 2.0


def test_short_streams_are_not_judged() -> None:
    assert [one.pattern.tokens for one in long_enough([stream(), stream(tokens=50)])] == [50]


def test_only_a_worker_that_stutters_is_uneven() -> None:
    assert uneven([stream()], 5.0) == []
    assert len(uneven([stream()], 1.0)) == 1
