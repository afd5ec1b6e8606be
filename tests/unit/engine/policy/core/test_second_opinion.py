"""What a drafter's proposal says of another's draft: `Guesser.weigh`, and what that is worth."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.policy import ForwardDrafter, Guesser

DRAFT = [1, 2, 3, 4, 5]
CLAIMED = [0.5, 0.4, 0.3, 0.2, 0.1]


def calibrated(positions: int = 3) -> ForwardDrafter:
    return ForwardDrafter(positions, calibrated=True)


def proposing(
    tokens: list[int], sure: float = 0.6, drafter: ForwardDrafter | None = None
) -> Guesser:
    guesser = (drafter or calibrated()).guesser()
    guesser.propose(tokens, [sure] * len(tokens))
    return guesser


def test_what_both_name_is_likelier_and_equally_likely_of_both() -> None:
    draft, guess = proposing([1, 2, 3]).weigh(DRAFT, CLAIMED)

    assert draft[:3] == guess
    assert all(chance > claimed for chance, claimed in zip(draft, CLAIMED, strict=True))


def test_behind_the_meeting_a_draft_goes_on_as_it_claimed() -> None:
    draft, _ = proposing([1, 2, 3]).weigh(DRAFT, CLAIMED)

    assert draft[3] / draft[2] == pytest.approx(CLAIMED[3] / CLAIMED[2])
    assert draft[4] / draft[3] == pytest.approx(CLAIMED[4] / CLAIMED[3])


def test_where_they_differ_each_is_less_likely() -> None:
    guesser = calibrated().guesser()
    alone = guesser.propose([9, 2, 3], [0.6] * 3)

    draft, guess = guesser.weigh(DRAFT, CLAIMED)

    assert draft[0] < CLAIMED[0]
    assert guess[0] < alone[0]
    assert draft[0] + guess[0] <= 1.0
    # Neither says anything of the other's further tokens.
    assert draft[1] / draft[0] == pytest.approx(CLAIMED[1] / CLAIMED[0])
    assert guess[1] / guess[0] == pytest.approx(alone[1] / alone[0])


@pytest.mark.parametrize(("first", "second"), [(0.2, 0.9), (0.5, 0.99)])
def test_a_surer_head_is_believed_more(first: float, second: float) -> None:
    def of(tokens: list[int], sure: float) -> float:
        return proposing(tokens, sure).weigh(DRAFT, CLAIMED)[0][0]

    assert of([1, 2, 3], second) > of([1, 2, 3], first)
    assert of([9, 2, 3], second) < of([9, 2, 3], first)


chances = st.lists(st.floats(0.0, 1.0), min_size=0, max_size=8).map(
    lambda found: sorted(found, reverse=True)
)
tokens = st.lists(st.integers(0, 2), min_size=8, max_size=8)


@given(draft=tokens, claimed=chances, guess=tokens, sure=st.lists(st.floats(0.0, 1.0), max_size=3))
def test_it_is_always_a_survival(
    draft: list[int], claimed: list[float], guess: list[int], sure: list[float]
) -> None:
    guesser = calibrated().guesser()
    alone = guesser.propose(guess[: len(sure)], sure)

    found = guesser.weigh(draft, claimed)

    assert [len(chances) for chances in found] == [len(claimed), len(alone)]
    for survival in found:
        assert all(0.0 <= chance <= 1.0 for chance in survival)
        assert all(later <= earlier for earlier, later in pairwise(survival))


def test_how_much_an_agreement_says_is_learnt() -> None:
    """A draft that claims a half, and is right where the other agrees, and never else."""
    drafter = calibrated()
    for number in range(400):
        guesser = proposing([1 if number % 2 else 9], 0.6, drafter)
        guesser.weigh([1], [0.5])
        guesser.learn([1 if number % 2 else 9])

    agreed, differed = (proposing([token], 0.6, drafter).weigh([1], [0.5]) for token in (1, 9))

    assert agreed[0][0] > 0.9
    assert differed[0][0] < 0.1
    assert differed[1][0] > 0.9


def test_what_says_nothing_is_soon_ignored() -> None:
    drafter = calibrated()
    for number in range(2000):
        guesser = proposing([1 if number % 2 else 9], 0.6, drafter)
        guesser.weigh([1], [0.5])
        guesser.learn([1 if number // 2 % 2 else 5])

    for token in (1, 9):
        ((chance,), _) = proposing([token], 0.6, drafter).weigh([1], [0.5])
        assert chance == pytest.approx(0.5, abs=0.1)


def test_behind_a_miss_nothing_is_learnt() -> None:
    drafter = calibrated()

    def second() -> float:
        draft, _ = proposing([1, 2], 0.6, drafter).weigh([1, 2], [0.5, 0.25])
        return draft[1] / draft[0]

    before = second()
    for _ in range(50):
        guesser = proposing([1, 2], 0.6, drafter)
        guesser.weigh([1, 2], [0.5, 0.25])
        guesser.learn([7, 2])

    assert second() == pytest.approx(before)


def test_a_proposal_that_was_not_weighed_teaches_nothing_of_that() -> None:
    drafter = calibrated()
    before = proposing([1], 0.6, drafter).weigh([1], [0.5])[0]
    guesser = proposing([1], 0.6, drafter)
    guesser.weigh([1], [0.5])
    guesser.propose([1], [0.6])
    guesser.learn([2])

    # Its own calibration has learnt; so only what does not hang on that is compared.
    again = drafter.guesser()
    again.propose([1], [0.6])
    assert again.weigh([1], [0.5])[0][0] == pytest.approx(before[0], abs=0.05)


def test_greedy_requests_say_nothing_of_sampled_ones() -> None:
    drafter = calibrated()
    for _ in range(200):
        guesser = proposing([1], 0.6, drafter)
        guesser.weigh([1], [0.5])
        guesser.learn([2])

    warm, fresh = drafter.guesser(1.0), calibrated().guesser(1.0)
    for guesser in (warm, fresh):
        guesser.propose([1], [0.6])

    assert warm.weigh([1], [0.5]) == fresh.weigh([1], [0.5])


def test_more_chances_than_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="more chances than tokens"):
        proposing([1]).weigh([1], [0.5, 0.4])


class TestGain:
    """What a proposal is expected to bring beside a draft."""

    def test_much_is_expected_before_anything_is_known(self) -> None:
        assert calibrated().guesser().expected_gain_beside(0.5) == 1.0

    def test_it_follows_what_was_brought(self) -> None:
        guesser = calibrated().guesser()
        for _ in range(300):
            guesser.brought(0.5, 0.0)
        least = guesser.expected_gain_beside(0.5)
        for _ in range(300):
            guesser.brought(0.5, 2.0)

        assert least < 0.01
        assert guesser.expected_gain_beside(0.5) == pytest.approx(2.0, rel=0.01)

    @pytest.mark.parametrize(("told", "asked"), [(0.1, 0.5), (0.5, 0.9), (0.95, 0.98), (1.0, 0.95)])
    def test_sure_drafts_and_unsure_ones_are_told_apart(self, told: float, asked: float) -> None:
        guesser = calibrated().guesser()
        before = guesser.expected_gain_beside(asked)
        for _ in range(100):
            guesser.brought(told, 0.0)

        assert guesser.expected_gain_beside(asked) == before
        assert guesser.expected_gain_beside(told) < 0.2

    def test_requests_share_it(self) -> None:
        drafter = calibrated()
        for _ in range(100):
            drafter.guesser().brought(0.5, 0.0)

        assert drafter.guesser().expected_gain_beside(0.5) < 0.2
