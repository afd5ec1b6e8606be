import pytest

from bench.suffix.figures import accepted_at_drafted, pooled
from bench.suffix.replay import Figures

CURVE = [
    Figures(steps=10, drafted=40, accepted=20),
    Figures(steps=10, drafted=20, accepted=10),
]


@pytest.mark.parametrize(
    ("drafted", "accepted"),
    [
        pytest.param(3.0, 1.5, id="between two thresholds"),
        pytest.param(2.0, 1.0, id="at a threshold"),
        pytest.param(9.0, 2.0, id="more than any drafts: a lower bound"),
        pytest.param(1.0, None, id="less than any drafts"),
    ],
)
def test_the_trade_off_is_read_between_thresholds(drafted: float, accepted: float | None) -> None:
    assert accepted_at_drafted(CURVE, drafted) == accepted


def test_pooled_sets_weigh_as_they_are_long() -> None:
    sets = {"short": Figures(steps=1, accepted=9), "long": Figures(steps=9, accepted=1)}

    assert pooled(sets, ["short", "long"]).accepted_per_step == 1.0
