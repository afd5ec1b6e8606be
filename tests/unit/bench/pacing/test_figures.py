"""Delays and gaps are what their definitions say."""

import numpy as np
import pytest

from bench.pacing.dialect import Arrival
from bench.pacing.figures import MismatchError, Played, gaps_of, percentile, played
from bench.pacing.patterns import Chunk, Pattern

MS = 1_000_000
PATTERN = Pattern("a", "k", [Chunk(0, "ab", 1), Chunk(10 * MS, "cdef", 2)])


def arrived(*pieces: tuple[float, str]) -> list[Arrival]:
    return [Arrival(int(at_ms * MS), text, None) for at_ms, text in pieces]


def play(*pieces: tuple[float, str]) -> Played:
    sent_ns = [100 * MS, 110 * MS, 111 * MS]
    return played(PATTERN, sent_ns, arrived(*pieces), (120 * MS, 500))


def test_a_token_has_come_with_its_last_character() -> None:
    one = play((101, "a"), (102, "bc"), (114, "d"), (118, "ef"))

    assert list(one.delays_ms) == [2.0, 4.0, 8.0]


def test_first_text_and_end_have_their_own_delays() -> None:
    one = play((101, "a"), (114, "bcdef"))

    assert one.first_ms == 1.0
    assert one.end_ms == 9.0


@pytest.mark.parametrize("text", ["abcde", "abcdefg", "abcdxf", ""])
def test_another_text_is_a_mismatch(text: str) -> None:
    pieces = [(101.0, text)] if text else []

    with pytest.raises(MismatchError):
        play(*pieces)


def test_a_stamp_that_is_missing_is_a_mismatch() -> None:
    with pytest.raises(MismatchError, match="stamps"):
        played(PATTERN, [1, 2], arrived((101, "abcdef")), (120 * MS, 500))


def test_gaps_are_shared_by_the_tokens_of_the_later_piece() -> None:
    gaps = gaps_of(np.array([0, 30, 90]) * MS, np.array([1.0, 4.0, 6.0]), np.array([5, 11, 12]))

    assert list(gaps.ms) == [30.0, 60.0]
    assert list(gaps.tokens) == [3.0, 2.0]
    assert gaps.ratio("token") == pytest.approx(30.0 / 10.0)
    assert gaps.ratio("character") == pytest.approx(60.0 / 5.0)
    assert gaps.ratio("piece") == pytest.approx(60.0 / 30.0)
    assert gaps.tokens_per_piece == 2.5


def test_variation_is_deviation_over_mean() -> None:
    gaps = gaps_of(np.array([0, 10, 40]) * MS, np.array([1.0, 2.0, 3.0]), np.array([2, 3, 6]))

    assert gaps.variation("piece") == pytest.approx(0.5)
    assert gaps.variation("token") == pytest.approx(0.5)
    assert gaps.variation("character") == pytest.approx(0.0)


def test_pieces_of_one_moment_are_one() -> None:
    at_ns = np.array([0, 0.4, 20, 20.9, 40]) * MS
    ends = np.array([1, 2, 3, 4, 5])
    gaps = gaps_of(at_ns.astype(np.int64), ends.astype(float), ends)

    assert list(gaps.ms) == [20.0, 20.0]
    assert list(gaps.tokens) == [2.0, 1.0]


def test_a_piece_of_about_a_token_is_one() -> None:
    gaps = play((101, "ab"), (111, "c"), (121, "def")).client_gaps()

    assert list(gaps.tokens) == [1.0, 2.0]
    assert list(gaps.characters) == [1.0, 3.0]
    assert list(gaps.ms) == [10.0, 10.0]


def test_one_piece_has_no_gaps() -> None:
    gaps = play((101, "abcdef")).client_gaps()

    assert gaps.ratio("token") is None
    assert gaps.variation("piece") is None
    assert gaps.tokens_per_piece is None


@pytest.mark.parametrize(("ratio", "expected"), [(0.5, 1.0), (0.75, 1.0), (0.76, 5.0), (1.0, 9.0)])
def test_percentile_counts_by_weight(ratio: float, expected: float) -> None:
    values, weights = np.array([9.0, 1.0, 5.0]), np.array([1.0, 12.0, 3.0])

    assert percentile(values, ratio, weights) == expected


def test_percentile_of_nothing_has_no_value() -> None:
    assert percentile(np.zeros(0), 0.5) is None
