import pytest

from engine.policy import paying, worth


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


@pytest.mark.parametrize(
    ("price", "length"), [(0.95, 0), (0.9, 1), (0.55, 2), (0.2, 2), (0.0, 3)], ids=str
)
def test_a_token_pays_while_it_survives_at_the_price(price: float, length: int) -> None:
    assert paying([0.9, 0.6, 0.1], price) == length


@pytest.mark.parametrize("wrong", [None, [None], ["1"]], ids=str)
def test_what_is_no_survival_is_an_error(wrong: list[float]) -> None:
    for call in (lambda: worth(wrong, 0.5), lambda: paying(wrong, 0.5)):
        with pytest.raises(TypeError):
            call()
