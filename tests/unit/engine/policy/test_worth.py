import pytest

from engine.policy import worth


@pytest.mark.parametrize(
    ("survival", "price", "expected"),
    [
        ([], 0.1, 0.0),
        ([0.9, 0.6, 0.2], 0.5, 0.5),
        ([0.9, 0.6, 0.2], 0.0, 1.7),
        ([0.9, 0.6, 0.2], 0.95, 0.0),
        ([0.5], 0.5, 0.0),
    ],
)
def test_the_gain_of_the_best_prefix(survival: list[float], price: float, expected: float) -> None:
    assert worth(survival, price) == pytest.approx(expected)
