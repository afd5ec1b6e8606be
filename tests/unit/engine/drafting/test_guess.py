import pytest

from engine.drafting.guess import Guesser
from engine.policy import ConfidenceCalibration, PositionAcceptance


def test_a_proposal_is_scored_by_what_came() -> None:
    guesser = Guesser(PositionAcceptance(3))
    before = guesser.expected()

    guesser.propose([1, 2, 3])
    guesser.learn([1, 9])

    first, second, third = guesser.expected()
    assert first > before[0]
    assert second / first < before[1] / before[0]
    assert third / second == pytest.approx(before[2] / before[1])


def test_it_is_scored_once() -> None:
    guesser = Guesser(PositionAcceptance(1))
    guesser.propose([1])
    guesser.learn([1])
    once = guesser.expected()

    guesser.learn([1])

    assert guesser.expected() == once


def test_tokens_beyond_what_came_teach_nothing() -> None:
    guesser = Guesser(PositionAcceptance(2))
    guesser.propose([1, 2])
    guesser.learn([1])

    first, second = guesser.expected()

    assert second / first == pytest.approx(0.5)


def test_a_new_request_begins_with_what_others_showed() -> None:
    overall = PositionAcceptance(1)
    for _ in range(100):
        other = Guesser(overall)
        other.propose([1])
        other.learn([1])

    assert Guesser(overall).expected()[0] > 0.9


def test_confidence_counts_where_it_is_calibrated() -> None:
    overall = PositionAcceptance(1)
    calibrated, plain = Guesser(overall, ConfidenceCalibration(1)), Guesser(overall)

    assert calibrated.propose([1], [0.99])[0] > calibrated.propose([1], [0.2])[0]
    assert plain.propose([1]) == plain.expected()


def test_calibration_learns_from_what_came() -> None:
    calibration = ConfidenceCalibration(1)
    guesser = Guesser(PositionAcceptance(1), calibration)
    (before,) = calibration.survival([0.9], [0.5])
    for _ in range(100):
        guesser.propose([1], [0.9])
        guesser.learn([2])

    assert calibration.survival([0.9], [0.5])[0] < before - 0.2
