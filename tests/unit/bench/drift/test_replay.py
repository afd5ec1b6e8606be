from typing import Any

import numpy as np

from bench.drift.replay import _Contestants

GOOD, BAD = np.ones(41, np.int64), np.zeros(41, np.int64)


def play(contestants: _Contestants, ours: Any, others: Any) -> list[str]:
    said = [contestants.judge(ours, others) for _ in range(200) if contestants.other is not None]
    return [one for one in said if one is not None]


def test_a_better_head_is_adopted_and_rolled_back_when_it_proves_worse() -> None:
    old: Any = object()
    new: Any = object()
    contestants = _Contestants(old)
    contestants.offer(new)

    while contestants.judge(BAD, GOOD) is None:
        pass
    assert (contestants.serving, contestants.other) == (new, old)
    assert play(contestants, BAD, GOOD) == ["rolled back"]

    assert (contestants.serving, contestants.other) == (old, None)


def test_a_head_that_is_no_better_is_not_adopted() -> None:
    old: Any = object()
    new: Any = object()
    contestants = _Contestants(old)
    contestants.offer(new)

    assert play(contestants, GOOD, GOOD) == ["kept"]

    assert (contestants.serving, contestants.other) == (old, None)
