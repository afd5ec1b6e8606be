"""The test of the test: known values, false alarms, and a difference that must be found."""

import numpy as np
import pytest

from tests.e2e.exactness.two_samples import p_value, power, survival, tabulate


@pytest.mark.parametrize(
    ("statistic", "degrees", "expected"),
    [(3.841, 1, 0.05), (5.991, 2, 0.05), (18.307, 10, 0.05), (37.566, 20, 0.01), (0.0, 5, 1.0)],
)
def test_survival_is_that_of_the_tables(statistic: float, degrees: int, expected: float) -> None:
    assert survival(statistic, degrees=degrees) == pytest.approx(expected, rel=1e-3)


def test_rare_values_share_a_cell_and_empty_cells_are_left_out() -> None:
    assert tabulate("aaabbc", "aabbd", cells=3) == ([3, 2, 1], [2, 2, 1])
    assert tabulate("aab", "ab", cells=5) == ([2, 1], [1, 1])


def test_samples_of_one_distribution_are_told_apart_as_often_as_the_significance_says() -> None:
    source = np.random.default_rng(2)
    values = source.choice(6, size=(400, 2, 500), p=[0.4, 0.3, 0.15, 0.1, 0.03, 0.02])

    found = sum(p_value(list(a), list(b), cells=6) < 0.05 for a, b in values)

    assert 0.02 * 400 < found < 0.09 * 400


def test_samples_of_two_distributions_are_told_apart() -> None:
    assert p_value("a" * 60 + "b" * 40, "a" * 30 + "b" * 70, cells=3) < 1e-4
    assert p_value("a" * 50 + "b" * 50, "a" * 50 + "b" * 50, cells=3) == 1.0


def test_power_rises_with_the_shift() -> None:
    counts = [500, 300, 200]

    chances = [
        power(counts, counts, shift=shift, significance=0.01, rounds=100)
        for shift in (0.0, 0.05, 0.3)
    ]

    assert chances[0] < 0.05
    assert chances[0] < chances[1] < chances[2] == 1.0
