from dataclasses import replace

import numpy as np
import pytest

from loadtest.load.answer import Answer, Arrived, Ending, Recording, Speculation
from loadtest.load.figures import figures_of, meets, summarise
from loadtest.load.made_up import MadeUpPrompts
from loadtest.load.plan import Arrival, make_plan
from loadtest.load.run import Outcome
from loadtest.load.scenario import Objective, load_scenario

MS = 1_000_000
OBJECTIVE = Objective(first_token_ms=100, per_token_ms=10)


def answer(
    *,
    first_ms: int = 50,
    gap_ms: int = 5,
    tokens: int = 11,
    ending: Ending = Ending.DONE,
    late_ms: int = 0,
    speculation: Speculation | None = None,
) -> Answer:
    """A stream that brings one token after the other."""
    times = [first_ms + gap_ms * number for number in range(tokens)]
    recording = Recording(due_ns=0, sent_ns=late_ms * MS, status=200, ended_ns=times[-1] * MS)
    arrivals = [Arrived(time * MS, 1, number + 1) for number, time in enumerate(times)]
    error = "worker_lost" if ending is Ending.ERROR else None
    return Answer(recording, ending, error, arrivals, tokens, speculation)


def arrival(name: str) -> Arrival:
    (first, *_) = make_plan(load_scenario("chat"), MadeUpPrompts(), seed=0)
    traffic = next(each for each in load_scenario("mixed").mix if each.name == name)
    return replace(first, traffic=traffic)


def outcomes(*answers: Answer, traffic: str = "chat") -> list[Outcome]:
    return [Outcome(arrival(traffic), 0, each) for each in answers]


@pytest.mark.parametrize(
    ("made", "met"),
    [
        (answer(), True),
        (answer(first_ms=101), False),
        (answer(gap_ms=11), False),
        (answer(tokens=1), True),
    ],
    ids=["good", "late first token", "slow tokens", "one token"],
)
def test_goodput_requires_both_objectives(made: Answer, met: bool) -> None:
    assert meets(made, OBJECTIVE) is met


@pytest.mark.parametrize(("total_ms", "met"), [(200, True), (201, False)])
def test_an_answer_in_one_piece_has_the_time_of_its_tokens(total_ms: int, met: bool) -> None:
    whole = answer(tokens=11)
    whole.arrivals.clear()
    whole.recording.ended_ns = total_ms * MS

    assert meets(whole, OBJECTIVE) is met


def test_failed_requests_count_against_goodput() -> None:
    figures = figures_of(
        outcomes(answer(), answer(ending=Ending.ERROR), answer(first_ms=300)), OBJECTIVE, seconds=2
    )

    assert figures.goodput_ratio == pytest.approx(1 / 3)
    assert figures.goodput_per_second == 0.5
    assert figures.errors == {"worker_lost": 1}
    assert figures.endings == {"done": 2, "error": 1}


def test_clients_that_leave_or_read_slowly_are_not_measured() -> None:
    slow = outcomes(answer(first_ms=900, gap_ms=90), traffic="slow")

    figures = figures_of([*outcomes(answer()), *slow], OBJECTIVE, seconds=1)

    assert figures.first_token_ms is not None
    assert (figures.requests, figures.measured) == (2, 1)
    assert figures.first_token_ms.max == 50
    assert figures.goodput_ratio == 1.0


def test_the_time_of_one_that_failed_is_no_latency_of_a_whole_answer() -> None:
    figures = figures_of(
        outcomes(answer(), answer(gap_ms=50, ending=Ending.ERROR)), OBJECTIVE, seconds=1
    )

    assert figures.total_ms is not None
    assert figures.total_ms.count == 1


def test_acceptance_is_that_of_all_tokens_and_not_the_mean_of_requests() -> None:
    one = answer(speculation=Speculation(10, 9, 3, {"suffix": (10, 9)}))
    other = answer(speculation=Speculation(90, 1, 30, {"suffix": (80, 1), "head": (10, 0)}))

    figures = figures_of(outcomes(one, other), OBJECTIVE, seconds=1)

    assert figures.acceptance_ratio == 0.1
    assert figures.acceptance_length == pytest.approx(1 + 10 / 33)
    assert figures.sources == {
        "suffix": {"drafted": 90, "accepted": 10},
        "head": {"drafted": 10, "accepted": 0},
    }


def test_what_has_no_value_is_none() -> None:
    figures = figures_of([], OBJECTIVE, seconds=1)

    assert figures.goodput_ratio is None
    assert figures.first_token_ms is None
    assert figures.acceptance_ratio is None
    assert figures.requests == 0


def test_the_clients_own_delay_is_reported_apart() -> None:
    figures = figures_of(outcomes(answer(late_ms=7)), OBJECTIVE, seconds=1)

    assert figures.late_ms is not None
    assert figures.late_ms.max == 7


def test_a_gap_counts_as_often_as_tokens_had_it() -> None:
    summary = summarise(np.array([1.0, 5.0]), np.array([9.0, 1.0]))

    assert summary is not None
    assert (summary.count, summary.mean, summary.p50, summary.p95) == (10, 1.4, 1.0, 5.0)


def test_a_summary_gives_quantiles_and_nothing_for_nothing() -> None:
    summary = summarise(np.arange(101, dtype=np.float64))

    assert summary is not None
    assert (summary.p50, summary.p90, summary.p99, summary.max) == (50, 90, 99, 100)
    assert summarise(np.array([])) is None
