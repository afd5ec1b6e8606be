import json
from dataclasses import replace
from typing import Any

import pytest

from loadtest.chaos.faults import Kind
from loadtest.chaos.inflict import Injury
from loadtest.chaos.report import (
    Chaos,
    beyond_start_seconds,
    has_one_ending,
    is_lost_replay,
    report_of,
)
from loadtest.chaos.seams import Seams
from loadtest.load import Arrival, MadeUpPrompts, Outcome, load_scenario, make_plan
from loadtest.load.answer import Answer, Ending, Recording

ARRIVAL: Arrival = make_plan(load_scenario("chat"), MadeUpPrompts(), seed=0)[0]
GOOD = Injury(Kind.KILL_ENGINE_CORE, 20.0, start_seconds=16.0)


def answer(ending: Ending, error: str | None = None, *, events: int = 0) -> Answer:
    return Answer(Recording(0, 0, status=200), ending, error, events=events)


def chaos(*answers: Answer, **fields: Any) -> Chaos:
    outcomes = [Outcome(ARRIVAL, 0, each) for each in answers]
    made = Chaos(injuries=[GOOD], began=len(outcomes), outcomes=outcomes)
    return replace(made, **fields)


@pytest.mark.parametrize(
    ("made", "good"),
    [
        (answer(Ending.DONE), True),
        (answer(Ending.LEFT), True),
        (answer(Ending.ERROR, "worker_lost"), True),
        (answer(Ending.ERROR, "not JSON"), False),
        (answer(Ending.NONE), False),
        (answer(Ending.SEVERAL), False),
    ],
    ids=["done", "left", "error", "unreadable", "none", "several"],
)
def test_one_ending_is_one_that_a_client_can_read(made: Answer, good: bool) -> None:
    assert has_one_ending(made) is good
    assert report_of(chaos(made))["without_one_ending"] == (not good)


@pytest.mark.parametrize(
    ("made", "lost"),
    [
        (answer(Ending.ERROR, "worker_lost"), True),
        (answer(Ending.ERROR, "no_healthy_worker"), True),
        (answer(Ending.ERROR, "worker_lost", events=1), False),
        (answer(Ending.ERROR, "bad_gateway"), False),
        (answer(Ending.ERROR, "overloaded"), False),
    ],
    ids=["before anything", "nobody", "after something", "nonsense", "drained"],
)
def test_a_replay_is_lost_when_a_worker_is_and_nothing_had_been_delivered(
    made: Answer, lost: bool
) -> None:
    assert is_lost_replay(made, tries=1) is lost
    assert report_of(chaos(made))["lost_replays"] == lost


def test_a_request_that_used_all_replays_is_counted_separately() -> None:
    made = answer(Ending.ERROR, "worker_lost")
    made.recording.request_id = "r"

    found = report_of(chaos(made, tries={"r": 3}))

    assert (found["lost_replays"], found["lost_with_every_replay"]) == (0, 1)
    assert found["is_good"] is True


def test_what_hangs_and_what_never_ended_are_counted() -> None:
    found = report_of(chaos(answer(Ending.HUNG), answer(Ending.DONE), began=5))

    assert (found["hung"], found["without_one_ending"], found["requests"]) == (1, 3, 5)
    assert found["is_good"] is False


def test_a_run_without_a_broken_guarantee_is_good() -> None:
    found = report_of(chaos(answer(Ending.DONE)))

    assert found["is_good"] is True
    assert (found["faults"], found["recover_seconds_max"]) == (1, 20.0)
    assert json.loads(json.dumps(found)) == found


def test_a_run_without_a_fault_is_not_good() -> None:
    assert report_of(chaos(answer(Ending.DONE), injuries=[]))["is_good"] is False


def test_recovery_may_take_the_start_of_the_worker_and_the_patience_of_the_settings() -> None:
    assert beyond_start_seconds(GOOD) == 4.0
    assert beyond_start_seconds(replace(GOOD, kind=Kind.STOP_ENGINE_CORE)) < 0  # type: ignore[operator]  # there is a value
    assert beyond_start_seconds(replace(GOOD, recover_seconds=None)) is None


@pytest.mark.parametrize(
    ("injury", "key"),
    [
        (replace(GOOD, recover_seconds=22.0), "late_recoveries"),
        (replace(GOOD, recover_seconds=None), "not_recovered"),
        (replace(GOOD, is_settled=False), "not_recovered"),
        (replace(GOOD, exit_status=1), "bad_exits"),
        (replace(GOOD, left_behind=1), "left_behind"),
        (replace(GOOD, damaged_snapshots=1), "damaged_snapshots"),
    ],
    ids=["late", "never", "unsettled", "exit", "left", "damaged"],
)
def test_every_broken_promise_is_counted(injury: Injury, key: str) -> None:
    found = report_of(chaos(answer(Ending.DONE), injuries=[injury]))

    assert found[key] == 1
    assert found["is_good"] is False


def test_an_example_shows_how_a_stray_ended() -> None:
    found = report_of(chaos(answer(Ending.SEVERAL, "not JSON")))

    assert "several" in json.dumps(found["examples"])


@pytest.mark.parametrize(
    ("seams", "good"),
    [
        (Seams(killed=10, continued=10, compared=5, identical=5), True),
        (Seams(killed=100, continued=99, lost=1), True),
        (Seams(killed=10, continued=9, lost=1), False),
        (Seams(killed=10, continued=10, compared=5, identical=4), False),
        (Seams(killed=10, continued=10, compared=5, identical=5, delivered_twice=1), False),
    ],
    ids=["all go on", "one in a hundred", "one in ten", "differs", "twice"],
)
def test_streams_go_on_as_if_nothing_had_happened(seams: Seams, good: bool) -> None:
    assert report_of(chaos(answer(Ending.DONE), seams=seams))["is_good"] is good
