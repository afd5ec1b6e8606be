from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine._core.policy import SourceFloor


def draft(floor: SourceFloor, chances: list[float], random: Random) -> tuple[int, int]:
    """A step: what reaches the floor is drafted, and accepted with its chance."""
    drafted = [chance for chance in chances if chance >= floor.least]
    accepted = sum(random.random() < chance for chance in drafted)
    if drafted:
        floor.learn(len(drafted), accepted)
    else:
        floor.wait()
    return len(drafted), accepted


def test_a_source_that_keeps_the_ratio_is_free() -> None:
    floor, random = SourceFloor(0.4), Random(1)
    for _ in range(300):
        draft(floor, [0.9, 0.6, 0.3], random)

    assert floor.least < 0.3


def test_the_least_sure_tokens_are_left_out_as_far_as_it_takes() -> None:
    floor, random = SourceFloor(0.4), Random(1)
    for _ in range(500):
        draft(floor, [0.8, 0.3, 0.2, 0.1, 0.05], random)

    counts = [draft(floor, [0.8, 0.3, 0.2, 0.1, 0.05], random) for _ in range(2000)]

    drafted, accepted = map(sum, zip(*counts, strict=True))
    assert accepted / drafted == pytest.approx(0.4, abs=0.05)
    assert drafted > 1.5 * len(counts)


def test_a_source_that_is_always_wrong_is_shut_and_tried_now_and_then() -> None:
    floor = SourceFloor(0.4)
    drafted = []
    for _ in range(4000):
        sure = floor.least <= 0.95
        drafted.append(4 if sure else 0)
        if sure:
            floor.learn(4, 0)
        else:
            floor.wait()

    assert sum(drafted[:100]) > 200
    assert 0 < sum(drafted[2000:]) < 0.2 * 2000


def test_it_is_back_as_soon_as_what_it_says_comes_true() -> None:
    floor = SourceFloor(0.4)
    for _ in range(15):
        floor.learn(4, 0)
    shut = floor.least
    for _ in range(50):
        floor.learn(4, 3)

    assert shut > 0.2
    assert floor.least == 0.0


def test_a_step_of_many_requests_moves_it_no_further_than_its_effect_can_be_seen() -> None:
    floor, seen = SourceFloor(0.4), [0.0]
    for refused in [1000] * 30 + [0] * 5:
        floor.learn(1000, 1000 - refused)
        seen.append(floor.least)

    up, down = np.diff(seen)[:30], np.diff(seen)[30:]
    most = np.maximum(0.02, (1.0 - np.array(seen[:-1])) / 8)
    assert up == pytest.approx(most[:30])
    assert down == pytest.approx(-most[30:])
    assert max(seen[:5]) < 0.5 < 1.0 < max(seen)


@given(
    st.floats(0.0, 1.0),
    st.lists(st.tuples(st.integers(0, 40), st.floats(0.0, 1.0)), max_size=60),
)
def test_it_stays_between_nothing_and_all(ratio: float, steps: list[tuple[int, float]]) -> None:
    floor = SourceFloor(ratio)
    for drafted, share in steps:
        before = floor.least
        floor.learn(drafted, int(drafted * share))
        floor.wait()
        assert 0.0 <= floor.least <= 1.25
        if ratio == 0.0:
            assert floor.least == 0.0
        if drafted == 0:
            assert floor.least <= before
