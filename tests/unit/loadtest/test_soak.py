import json

import pytest

from loadtest.load import MadeUpPrompts, Outcome, load_scenario, make_plan
from loadtest.load.answer import Answer, Ending, Recording
from loadtest.soak import Sample, growth_of, is_sustained, report_of, warm_up_of

CHAT = load_scenario("chat")
ARRIVAL = make_plan(CHAT, MadeUpPrompts(), seed=0)[0]


def samples(*sizes: int) -> list[Sample]:
    """One every ten seconds."""
    return [
        Sample(10.0 * number, number * 10**10, {"gateway": size}, {"gateway": size})
        for number, size in enumerate(sizes)
    ]


def outcome(ending: Ending) -> Outcome:
    return Outcome(ARRIVAL, 0, Answer(Recording(0, 0, status=200), ending))


def test_growth_before_the_end_of_the_warm_up_does_not_count() -> None:
    grown = samples(*range(1, 21), *([100] * 40))

    assert growth_of(grown, "gateway", warm_up_seconds=200.0) == 0.0


def test_growth_is_that_of_the_last_tenth_over_the_first() -> None:
    steady = samples(*([100] * 10), *([104] * 80), *([110] * 10))

    assert growth_of(steady, "gateway", warm_up_seconds=0.0) == pytest.approx(0.1)


def test_one_peak_is_no_growth() -> None:
    steady = samples(*([100] * 99), 900)

    assert growth_of(steady, "gateway", warm_up_seconds=0.0) == 0.0


def test_too_few_samples_tell_nothing() -> None:
    assert growth_of(samples(1, 2, 3), "gateway", warm_up_seconds=0.0) is None


@pytest.mark.parametrize(("seconds", "warm_up"), [(60.0, 20.0), (3600.0, 600.0)])
def test_the_warm_up_is_a_third_and_ten_minutes_at_most(seconds: float, warm_up: float) -> None:
    assert warm_up_of(seconds) == warm_up


@pytest.mark.parametrize(
    ("sizes", "endings", "same", "good"),
    [
        ([100] * 60, [Ending.DONE, Ending.LEFT], True, True),
        ([100] * 40 + [103] * 20, [Ending.DONE], True, False),
        ([100] * 60, [Ending.ERROR], True, False),
        ([100] * 60, [Ending.DONE], False, False),
        ([100] * 3, [Ending.DONE], True, False),
    ],
    ids=["steady", "grown", "failed", "replaced", "too short"],
)
def test_a_good_soak_is_steady_clean_and_whole(
    sizes: list[int], endings: list[Ending], same: bool, good: bool
) -> None:
    found = report_of(samples(*sizes), [outcome(each) for each in endings], CHAT, same=same)

    assert found["is_good"] is good
    assert found["bench"] == "soak"
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("running", "sustained"),
    [
        ([], True),
        ([4] * 60, True),
        ([4] * 30 + [16] * 30, True),
        ([20] * 30 + [29] * 30, True),
        ([20] * 30 + [31] * 30, False),
    ],
    ids=["too short", "steady", "few", "hardly more", "ever more"],
)
def test_a_machine_keeps_up_while_no_more_and_more_requests_run(
    running: list[int], sustained: bool
) -> None:
    assert is_sustained(running) is sustained


def test_a_soak_that_the_machine_cannot_keep_up_with_is_not_good() -> None:
    """Requests begin every ten seconds, and none ends before the last sample."""
    waiting = [
        Outcome(ARRIVAL, 0, Answer(Recording(0, n * 10**10, ended_ns=10**12), Ending.DONE))
        for n in range(60)
    ]

    found = report_of(samples(*[100] * 60), waiting, CHAT, same=True)

    assert not found["sustained"]
    assert not found["is_good"]
    minutes = found["by_minute"]
    assert isinstance(minutes, list)
    assert minutes[0] == {"minute": 0, "running": 3.5, "own_mb": {"gateway": 0.0}}
    assert minutes[-1]["running"] == 57.5
