from itertools import pairwise
from random import Random
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.load.arrivals import arrival_times
from loadtest.load.scenario import Arrivals, Process, Stage


def arrivals(process: Process, *stages: tuple[float, float]) -> Arrivals:
    return Arrivals(
        process=process,
        stages=tuple(Stage(requests_per_second=rate, seconds=seconds) for rate, seconds in stages),
    )


def test_constant_arrivals_are_evenly_spaced_from_the_start_on() -> None:
    times = arrival_times(arrivals("constant", (4.0, 1.0)), Random(0))

    assert [time for time, _ in times] == [0.0, 0.25, 0.5, 0.75]


def test_stages_follow_each_other_and_are_numbered() -> None:
    times = arrival_times(arrivals("constant", (1.0, 2.0), (2.0, 1.0)), Random(0))

    assert times == [(0.0, 0), (1.0, 0), (2.0, 1), (2.5, 1)]


def test_poisson_gaps_have_the_mean_and_the_spread_of_their_rate() -> None:
    times = [time for time, _ in arrival_times(arrivals("poisson", (10.0, 1000.0)), Random(5))]
    gaps = [later - earlier for earlier, later in pairwise(times)]

    assert mean(gaps) == pytest.approx(0.1, rel=0.05)
    assert mean(gap**2 for gap in gaps) == pytest.approx(0.02, rel=0.1)  # of an exponential


@given(
    seed=st.integers(0, 2**32),
    rate=st.floats(0.1, 50),
    seconds=st.floats(0.1, 20),
    process=st.sampled_from(["poisson", "constant"]),
)
def test_arrivals_rise_stay_in_their_stage_and_repeat(
    seed: int, rate: float, seconds: float, process: Process
) -> None:
    asked = arrivals(process, (rate, seconds), (rate, seconds))

    times = arrival_times(asked, Random(seed))

    assert times == sorted(times) == arrival_times(asked, Random(seed))
    assert all(seconds * stage <= time <= seconds * (stage + 1) for time, stage in times)
