"""Survival: its order, how it ends a draft, and how temperature changes it."""

import pytest

from engine.suffix import SuffixIndex
from tests.unit.engine.suffix.conversations import MIB
from tests.unit.engine.suffix.index.indexes import PHRASE, build


def test_survival_never_rises_and_lies_between_zero_and_one() -> None:
    survival = build().propose("now", 64).survival

    assert survival == sorted(survival, reverse=True)
    assert 0.0 <= survival[-1] <= survival[0] <= 1.0


def test_a_draft_ends_before_the_first_token_below_the_least_survival() -> None:
    every = build().propose("now", 16)
    middle = every.survival[7]

    some = build().propose("now", 16, min_survival=middle)

    assert some.survival == [one for one in every.survival if one >= middle]


@pytest.mark.parametrize(("cooler", "warmer"), [(0.0, 0.3), (0.3, 1.0)])
def test_drafts_of_hotter_requests_survive_less(cooler: float, warmer: float) -> None:
    drafts = [build(temperature=each).propose("now", 1) for each in (cooler, warmer)]

    assert drafts[0].tokens == drafts[1].tokens
    assert drafts[0].survival[0] > drafts[1].survival[0] > 0.0


def test_rejections_by_sampled_requests_count_less_against_greedy_ones() -> None:
    def survival(of: float, refused_at: float) -> float:
        index = SuffixIndex(4 * MIB, salt=1)
        for number in range(40):
            index.start(f"{number}", "acme", PHRASE, temperature=refused_at)
            for token in PHRASE[:4]:
                index.extend(f"{number}", [token])
                index.propose(f"{number}", 1)
                index.extend(f"{number}", [99])
            index.finish(f"{number}", keep=False)
        index.start("now", "acme", PHRASE, temperature=of)
        index.extend("now", PHRASE[:1])
        return index.propose("now", 1).survival[0]

    assert survival(of=1.0, refused_at=1.0) < survival(of=0.0, refused_at=1.0)
    assert survival(of=0.0, refused_at=0.0) < survival(of=0.0, refused_at=1.0)


def test_temperatures_above_two_count_as_two() -> None:
    drafts = [build(temperature=each).propose("now", 8) for each in (2.0, 1e30)]

    assert drafts[0].survival == drafts[1].survival
