from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.routing.choose import Candidate, choose, slow_start_weight
from gateway.types import WorkerId

CANDIDATES = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from([0.1, 0.5, 1.0])), min_size=1, max_size=6
).map(lambda drawn: [Candidate(WorkerId(str(at)), *fields) for at, fields in enumerate(drawn)])


def candidates(*in_flight: int) -> list[Candidate]:
    return [Candidate(WorkerId(str(at)), count) for at, count in enumerate(in_flight)]


def shares(found: list[Candidate], draws: int = 3000) -> Counter[str]:
    random = Random(7)
    return Counter(choose(found, random) for _ in range(draws))


def test_of_two_the_less_loaded_is_always_chosen() -> None:
    assert shares(candidates(3, 2)) == {"1": 3000}


@given(CANDIDATES, st.integers())
def test_the_most_loaded_of_three_or_more_is_never_chosen(
    found: list[Candidate], seed: int
) -> None:
    loads = {each.worker: (each.in_flight + 1) / each.weight for each in found}
    chosen = loads[choose(found, Random(seed))]

    assert len(found) == 1 or chosen <= sorted(loads.values())[-2]


def test_equal_workers_share_equally() -> None:
    drawn = shares(candidates(0, 0, 0))

    assert all(850 < count < 1150 for count in drawn.values())
    assert len(drawn) == 3


def test_a_worker_of_low_weight_waits_until_the_others_are_full() -> None:
    young = Candidate(WorkerId("young"), 0, weight=0.1)

    assert choose([young, Candidate(WorkerId("old"), 8)], Random(0)) == "old"
    assert choose([young, Candidate(WorkerId("old"), 10)], Random(0)) == "young"


@pytest.mark.parametrize(
    ("seconds_up", "weight"), [(0.0, 0.1), (0.5, 0.1), (5.0, 0.5), (10.0, 1.0), (99.0, 1.0)]
)
def test_weight_rises_linearly(seconds_up: float, weight: float) -> None:
    assert slow_start_weight(seconds_up, ramp_seconds=10) == weight
    assert slow_start_weight(seconds_up, ramp_seconds=0) == 1.0
