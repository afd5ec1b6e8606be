"""What is said to be out of reach is: limits on long and short gaps are those of percentiles."""

import numpy as np
import pytest

from bench.pacing.dialect import Arrival
from bench.pacing.figures import Played, percentile, played
from bench.pacing.patterns import Chunk, Pattern
from bench.pacing.reach import is_reachable, most_fast, most_slow, stream_of

MS = 1_000_000


def sent_at(*at_ms: float, tokens: int = 1) -> Played:
    sent_ns = [int(at * MS) for at in at_ms]
    chunks = [Chunk(at_ns, "x" * tokens, tokens) for at_ns in sent_ns]
    arrivals = [Arrival(chunk.offset_ns, chunk.text, None) for chunk in chunks]
    return played(Pattern("a", "k", chunks), [*sent_ns, sent_ns[-1]], arrivals, (sent_ns[-1], 9))


def reaches(one: Played, *, median_ms: float, p99_ms: float) -> bool:
    limits_us = np.array([[median_ms], [p99_ms]]) * 1_000
    return bool(is_reachable(stream_of(one), limits_us[0], limits_us[1])[0])


@pytest.mark.parametrize("tokens", [1, 2, 3, 49, 99, 100, 101, 199, 200, 201, 250, 400])
def test_so_many_are_beyond_a_percentile(tokens: int) -> None:
    values = np.arange(tokens, dtype=float)
    median, p99 = percentile(values, 0.5), percentile(values, 0.99)

    assert median is not None
    assert p99 is not None
    assert most_fast(tokens) == (values < median).sum()
    assert most_slow(tokens) == (values > p99).sum()


def test_a_steady_rate_is_kept_and_no_other_is_reachable() -> None:
    beat = sent_at(*range(0, 2_000, 20))

    assert reaches(beat, median_ms=20, p99_ms=20)
    assert not reaches(beat, median_ms=0, p99_ms=19)
    assert not reaches(beat, median_ms=41, p99_ms=1_000)


def test_the_end_may_be_late_by_less_than_a_token() -> None:
    alone = sent_at(0, 100, 200)  # no gap of three tokens is beyond the p99

    assert reaches(alone, median_ms=125, p99_ms=125)
    assert not reaches(alone, median_ms=126, p99_ms=126)


def test_a_token_may_be_held_for_the_bound_and_no_longer() -> None:
    late = sent_at(0, 0, 1_000)

    assert reaches(late, median_ms=0, p99_ms=880)
    assert not reaches(late, median_ms=0, p99_ms=878)  # two that leave in one moment are one piece


def test_a_piece_of_many_tokens_is_as_many_gaps() -> None:
    # Token by token, eight of them would have at most the bound to themselves.
    bursts = sent_at(*range(0, 4_000, 400), tokens=8)

    assert reaches(bursts, median_ms=50, p99_ms=50)
    assert not reaches(bursts, median_ms=0, p99_ms=45)


def test_one_gap_in_a_hundred_may_be_longer() -> None:
    beats = [*range(0, 2_000, 20), *range(5_000, 6_600, 20)]
    once, twice = sent_at(*beats), sent_at(*beats, *range(8_580, 8_780, 20))

    assert most_slow(179) == most_slow(189) == 1
    assert reaches(once, median_ms=20, p99_ms=20)
    # Seven tokens come within the bound and share the shorter pause.
    assert reaches(twice, median_ms=0, p99_ms=2_000 / 7 + 20)
    assert not reaches(twice, median_ms=0, p99_ms=2_000 / 7 - 20)


def test_a_piece_waits_for_its_last_token() -> None:
    # Four tokens are there within the bound, so at most four share the pause before them.
    pause = sent_at(0, 1_000, 1_040, 1_080, 1_120, 1_160)

    assert reaches(pause, median_ms=0, p99_ms=1_120 / 4)
    assert not reaches(pause, median_ms=0, p99_ms=1_119 / 4 - 5)


def test_the_first_token_of_a_piece_is_not_held_for_longer_than_the_bound() -> None:
    # Two tokens share each pause, and the first two have left by 1,120 ms.
    pauses = sent_at(0, 1_000, 1_100, 2_300, 2_400)

    assert reaches(pauses, median_ms=0, p99_ms=(2_400 - 1_120) / 2)
    assert not reaches(pauses, median_ms=0, p99_ms=(2_400 - 1_120) / 2 - 5)


def test_what_comes_within_a_millisecond_is_one_piece_from_its_first() -> None:
    pairs = sent_at(0, *(at + late for at in range(100, 900, 100) for late in (0.0, 0.8)))

    assert reaches(pairs, median_ms=0, p99_ms=50.0)


def test_a_first_piece_has_no_gap() -> None:
    together = sent_at(0, 0.5, 100)

    assert reaches(together, median_ms=100, p99_ms=150)


def test_the_cases_differ() -> None:
    stream = stream_of(sent_at(*range(0, 2_000, 20)))

    found = is_reachable(stream, np.array([20e3, 45e3, 18e3]), np.array([20e3, 90e3, 18e3]))

    assert list(found) == [True, False, False]
