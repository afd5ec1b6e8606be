import pytest

from gateway.telemetry import Distribution

BOUNDS = (0.1, 0.2, 0.5)


def of(*counts: float) -> Distribution:
    return Distribution(BOUNDS, counts)


def test_what_came_later_is_the_difference() -> None:
    assert of(3, 2, 1, 9).since(of(1, 2, 0, 4)) == of(2, 0, 1, 5)


def test_a_histogram_that_began_anew_has_no_negative_counts() -> None:
    assert of(1, 0, 0, 0).since(of(5, 0, 0, 0)) == of(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        ((0, 0, 0, 0), 0.5, None),
        ((4, 0, 0, 0), 0.5, 0.05),
        ((4, 0, 0, 0), 1.0, 0.1),
        ((1, 1, 0, 0), 0.75, 0.15),
        ((2, 0, 2, 0), 0.5, 0.1),
        ((2, 0, 2, 0), 0.75, 0.35),
        ((0, 0, 0, 7), 0.5, 0.5),
        ((0, 2, 0, 0), 0.0, 0.1),
    ],
    ids=["none", "first", "end", "second", "border", "third", "above-all", "lowest"],
)
def test_a_quantile_is_interpolated_as_prometheus_does(
    counts: tuple[float, ...], share: float, value: float | None
) -> None:
    assert of(*counts).quantile(share) == (None if value is None else pytest.approx(value))
