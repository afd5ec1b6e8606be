import pytest

from engine.drafting.candidate import Candidate
from engine.drafting.origin import HEAD, SUFFIX, Origin

GRAFTED = Candidate([1, 2, 3, 4], [0.9, 0.6, 0.5, 0.1], Origin(HEAD, SUFFIX, 2))


@pytest.mark.parametrize(
    ("price", "length"), [(0.95, 0), (0.9, 1), (0.55, 2), (0.2, 3), (0.0, 4)], ids=str
)
def test_a_token_pays_while_it_survives_at_the_price(price: float, length: int) -> None:
    assert len(GRAFTED.cut(price)[0]) == length


def test_what_it_brings_is_the_survival_above_the_price() -> None:
    assert GRAFTED.gain(0.4) == pytest.approx(0.5 + 0.2 + 0.1)
    assert GRAFTED.gain(0.95) == 0.0


@pytest.mark.parametrize(
    ("price", "origin"),
    [(0.2, Origin(HEAD, SUFFIX, 2)), (0.55, Origin(HEAD)), (0.9, Origin(HEAD))],
    ids=["into the second part", "the first part", "less"],
)
def test_a_cut_draft_names_only_who_is_left(price: float, origin: Origin) -> None:
    assert GRAFTED.cut(price)[1] == origin
