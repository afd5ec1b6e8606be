import numpy as np
import pytest

from bench.gate_sim.recovery import WINDOW, steps_to_recover
from engine.simulation.arrays import Floats
from engine.simulation.course import Course, Stage, course_of
from engine.simulation.engine import Record

STAGE = 200


def record_of(speeds: Floats) -> Record:
    """Two lanes of one token a step, with these speeds."""
    tokens = np.ones((len(speeds), 2))
    seconds = np.stack([1.0 / speeds] * 2, axis=1)
    before = np.stack([np.arange(len(speeds))] * 2, axis=1)
    none = np.zeros_like(before)
    return Record(before, tokens, seconds, seconds, none, none, none)


def course(stages: int) -> Course:
    """Every other stage has the same conditions."""
    return course_of([Stage(STAGE, 1, phase=number % 2) for number in range(stages)])


@pytest.mark.parametrize("slow_for", [0, 25, 60], ids=str)
def test_it_counts_the_steps_until_a_window_is_as_good_as_the_rest(slow_for: int) -> None:
    oracle = record_of(np.ones(2 * STAGE))
    ours = np.ones(2 * STAGE)
    ours[STAGE : STAGE + slow_for] = 0.5

    found = steps_to_recover(record_of(ours), oracle, course(2))

    assert found == [slow_for]


def test_what_slows_the_oracle_too_is_no_delay() -> None:
    speeds = np.ones(2 * STAGE)
    speeds[STAGE : STAGE + 30] = 0.2

    found = steps_to_recover(record_of(speeds), record_of(speeds), course(2))

    assert found == [0]


def test_a_little_below_what_it_settles_at_counts_as_back() -> None:
    ours = np.full(2 * STAGE, 0.9)
    ours[STAGE : STAGE + 40] = 0.885

    found = steps_to_recover(record_of(ours), record_of(np.ones(2 * STAGE)), course(2))

    assert found == [0]


def test_every_shift_is_counted_by_itself() -> None:
    ours = np.ones(3 * STAGE)
    ours[STAGE : STAGE + 20] = 0.5
    ours[2 * STAGE : 2 * STAGE + 50] = 0.5

    found = steps_to_recover(record_of(ours), record_of(np.ones(3 * STAGE)), course(3))

    assert found == [20, 50]
    assert WINDOW < 20


def test_to_settle_for_less_than_before_is_not_to_be_back() -> None:
    ours = np.ones(3 * STAGE)
    ours[2 * STAGE :] = 0.9

    found = steps_to_recover(record_of(ours), record_of(np.ones(3 * STAGE)), course(3))

    assert found == [0, STAGE]
