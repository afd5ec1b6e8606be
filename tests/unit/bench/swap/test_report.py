import pytest

from bench.swap.report import LOADING, QUIET, percentile, report


def test_the_longest_step_is_compared_with_the_quiet_percentile() -> None:
    quiet = [0.010] * 98 + [0.020, 0.050]

    found = report(
        {QUIET: quiet, LOADING: [0.010, 0.024]}, {QUIET: 200, LOADING: 3}, load_seconds=[3.5]
    )

    assert found["load_seconds"] == [3.5]
    assert found[QUIET]["p99_ms"] == pytest.approx(50.0)
    assert found[LOADING]["longest_ms"] == pytest.approx(24.0)
    assert found[LOADING]["longest_over_quiet_p99"] == pytest.approx(0.48)
    assert found[LOADING]["steps"] == 2
    assert found[LOADING]["tokens_per_second"] == pytest.approx(3 / 0.034)


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 3.0), (0.99, 4.0), (1.0, 4.0)])
def test_a_percentile_is_one_of_the_values(share: float, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == value
