import math

import pytest

from engine._core.policy import ConfidenceCalibration


def test_survival_is_the_running_product_and_never_rises() -> None:
    survival = ConfidenceCalibration(3).survival([0.9, 0.5, 0.99], [0.5, 0.5, 0.5])

    assert len(survival) == 3
    assert 1.0 > survival[0] > survival[1] > survival[2] > 0.0


def test_before_anything_was_seen_a_surer_token_is_likelier() -> None:
    calibration = ConfidenceCalibration(1)

    chances = [calibration.survival([sure], [0.5])[0] for sure in (0.1, 0.5, 0.9)]

    assert chances == sorted(chances)
    assert chances[1] == pytest.approx(0.5)


def test_an_overconfident_head_is_corrected() -> None:
    calibration = ConfidenceCalibration(1)
    for _ in range(300):
        for right in (1, 0, 0):
            calibration.learn([0.9], [1 / 3], right)

    (chance,) = calibration.survival([0.9], [1 / 3])

    assert chance == pytest.approx(1 / 3, abs=0.08)


def test_positions_are_learnt_apart_and_those_behind_a_miss_not_at_all() -> None:
    calibration = ConfidenceCalibration(3)
    before = calibration.survival([0.7] * 3, [0.5] * 3)
    for _ in range(200):
        calibration.learn([0.7] * 3, [0.5] * 3, 1)

    first, second, third = calibration.survival([0.7] * 3, [0.5] * 3)

    assert first > before[0]
    assert second / first < 0.2
    assert third / second == pytest.approx(before[2] / before[1])


def test_probabilities_of_0_and_1_are_no_error() -> None:
    calibration = ConfidenceCalibration(2)
    calibration.learn([1.0, 0.0], [0.0, 1.0], 0)

    assert all(0.0 <= chance <= 1.0 for chance in calibration.survival([0.0, 1.0], [1.0, 0.0]))


def test_more_tokens_than_positions_are_left_out() -> None:
    calibration = ConfidenceCalibration(1)
    calibration.learn([0.5, 0.5], [0.5, 0.5], 2)

    assert len(calibration.survival([0.5, 0.5], [0.5, 0.5])) == 1


def test_what_is_no_number_counts_as_no_chance() -> None:
    calibration = ConfidenceCalibration(1)

    unsure, broken = (calibration.survival([sure], [0.5]) for sure in (0.0, math.nan))

    assert broken == unsure
