import pytest

from engine.policy._core import ConfidenceCalibration, Guesser, PositionAcceptance, worth


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


def test_what_it_is_expected_to_bring_is_the_worth_of_its_expected_draft() -> None:
    guesser = Guesser(PositionAcceptance(3, start=0.8))
    expected = guesser.expected()

    assert guesser.expected_gain(3, 0.1) == pytest.approx(worth(expected, 0.1))
    assert guesser.expected_gain(2, 0.1) == pytest.approx(worth(expected[:2], 0.1))
    assert guesser.expected_gain(9, 0.6) == pytest.approx(worth(expected, 0.6))
    assert guesser.expected_gain(0, 0.1) == guesser.expected_gain(3, 0.9) == 0.0


@pytest.mark.parametrize("confidence", [None, [0.9, 0.9]], ids=["unsaid", "said"])
def test_no_more_survives_than_is_proposed(confidence: list[float] | None) -> None:
    guesser = Guesser(PositionAcceptance(3), ConfidenceCalibration(3))

    assert len(guesser.propose([1, 2], confidence)) == 2
    assert guesser.propose([], confidence) == []


def test_a_proposal_without_confidence_forgets_that_of_the_one_before() -> None:
    calibration = ConfidenceCalibration(1)
    guesser = Guesser(PositionAcceptance(1), calibration)
    before = calibration.survival([0.9], [0.5])
    guesser.propose([1], [0.9])

    guesser.propose([1])
    guesser.learn([2])

    assert calibration.survival([0.9], [0.5]) == before


@pytest.mark.parametrize("wrong", [None, [None], ["1"], [1.5]], ids=str)
def test_what_is_no_list_of_tokens_is_an_error(wrong: list[int]) -> None:
    guesser = Guesser(PositionAcceptance(1))

    with pytest.raises(TypeError):
        guesser.propose(wrong)
    with pytest.raises(TypeError):
        guesser.learn(wrong)
