import random

import numpy as np
import pytest

from engine.worker.uniform import UniformTest, place_of

PROBABILITIES = np.array([0.1, 0.2, 0.3, 0.4], np.float32)


@pytest.mark.parametrize(
    ("token", "begin", "end"), [(2, 0.0, 0.3), (0, 0.3, 0.4), (1, 0.4, 0.6), (3, 0.6, 1.0)]
)
def test_the_draft_comes_first_and_the_others_follow(token: int, begin: float, end: float) -> None:
    places = [
        place_of(PROBABILITIES, draft=2, token=token, fraction=fraction) for fraction in (0.0, 1.0)
    ]

    assert places == pytest.approx([begin, end])


def test_uniform_values_are_no_evidence() -> None:
    """The mean of all final stakes is 1, and few of them are ever large."""
    rng = random.Random(1)
    reached = []
    for _ in range(400):
        test, most = UniformTest(), float("-inf")
        for _ in range(300):
            test.add(rng.random())
            most = max(most, test.evidence)
        reached.append(most)

    assert sum(one >= 1.0 for one in reached) <= 40  # a tenth, by Ville's inequality
    assert sum(one >= 2.0 for one in reached) <= 4
    assert max(reached) < 4.0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda u: 0.9 * u,  # too small
        lambda u: 1.0 - 0.9 * u,  # too large
        lambda u: 0.5 + 0.8 * (u - 0.5),  # in the middle
        lambda u: u**2 / 2 if u < 0.5 else 1.0 - (1.0 - u) ** 2 / 2,  # at the ends
    ],
)
def test_other_values_are_evidence(wrong: object) -> None:
    assert callable(wrong)
    rng, test = random.Random(2), UniformTest()
    for _ in range(3000):
        test.add(wrong(rng.random()))

    assert test.evidence > 6.0


def test_tenths_are_counted() -> None:
    test = UniformTest()
    for value in (0.0, 0.05, 0.1, 0.95, 1.0):
        test.add(value)

    assert test.counts == [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]
