from math import inf
from random import Random

from gateway.routing.least import Least


def test_there_is_no_least_of_nothing() -> None:
    numbers = Least()
    assert numbers.least() is None

    numbers.append()
    assert numbers.least() is None


def test_the_first_of_the_least_is_found_after_every_change() -> None:
    source = Random(7)
    numbers, expected = Least(), list[float]()
    for step in range(3000):
        if step % 60 == 0:
            numbers.append()
            expected.append(inf)
        at = source.randrange(len(expected))
        expected[at] = source.choice([inf, *range(20)])
        numbers[at] = expected[at]

        least = min(expected)
        assert numbers.least() == (None if least == inf else expected.index(least))
        assert numbers[at] == expected[at]
