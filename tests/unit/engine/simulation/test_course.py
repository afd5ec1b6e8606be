import numpy as np

from engine.simulation.course import Stage, course_of


def test_stages_end_by_the_tokens_of_their_seats() -> None:
    course = course_of([Stage(10, 1), Stage(10, 4), Stage(10, 1)])

    found = course.stage(np.array([0, 9, 10, 49, 50, 59, 60, 99]))

    assert found.tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    assert course.tokens == 60


def test_equal_conditions_have_one_number() -> None:
    course = course_of([Stage(10, 1), Stage(20, 1, slow=2.0), Stage(30, 1), Stage(10, 1, phase=1)])

    assert course.condition.tolist() == [0, 1, 0, 2]
