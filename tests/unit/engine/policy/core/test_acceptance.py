import pytest

from engine._core.policy import PositionAcceptance


def test_before_anything_is_seen_it_is_the_start_at_each_position() -> None:
    assert PositionAcceptance(3, start=0.5).survival() == pytest.approx([0.5, 0.25, 0.125])


def test_it_comes_to_the_share_that_was_seen() -> None:
    acceptance = PositionAcceptance(2)
    for _ in range(100):
        acceptance.learn(2, 2)
        acceptance.learn(2, 0)

    first, second = acceptance.survival()

    assert first == pytest.approx(0.5, abs=0.05)
    assert second / first == pytest.approx(1.0, abs=0.1)


def test_positions_behind_the_first_miss_teach_nothing() -> None:
    acceptance = PositionAcceptance(3)
    acceptance.learn(3, 0)

    first, second, third = acceptance.survival()

    assert first < 0.5
    assert (second / first, third / second) == pytest.approx((0.5, 0.5))


def test_a_new_request_begins_with_what_others_showed() -> None:
    everybody = PositionAcceptance(1)
    for _ in range(200):
        PositionAcceptance(1, parent=everybody).learn(1, 1)

    (chance,) = PositionAcceptance(1, parent=everybody).survival()

    assert chance > 0.9


def test_a_request_soon_differs_from_the_others() -> None:
    everybody = PositionAcceptance(1)
    for _ in range(200):
        everybody.learn(1, 1)
    mine = PositionAcceptance(1, parent=everybody)
    for _ in range(12):
        mine.learn(1, 0)

    assert mine.survival()[0] < 0.35


def test_old_outcomes_fade() -> None:
    acceptance = PositionAcceptance(1)
    for _ in range(300):
        acceptance.learn(1, 1)
    for _ in range(100):
        acceptance.learn(1, 0)

    assert acceptance.survival()[0] < 0.3


def test_a_draft_longer_than_its_positions_is_cut() -> None:
    acceptance = PositionAcceptance(1)

    acceptance.learn(5, 5)

    assert len(acceptance.survival()) == 1


def test_a_parent_of_other_drafts_is_refused() -> None:
    with pytest.raises(ValueError, match="positions"):
        PositionAcceptance(2, parent=PositionAcceptance(3))
