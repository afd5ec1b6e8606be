import json
from dataclasses import replace

from loadtest.load.plan import fingerprint_of
from loadtest.load.report import Run, report_of


def test_the_report_is_json_that_says_what_was_run(played: Run) -> None:
    found = json.loads(json.dumps(report_of(played)))

    assert found["bench"] == "load"
    assert found["seed"] == 1
    assert found["plan"] == fingerprint_of(played.plan)
    assert found["stream_counts_tokens"] is True
    assert found["model"] == "fake-model"


def test_groups_add_up_to_the_whole(played: Run) -> None:
    whole, by_traffic, by_stage = played.of_all(), played.by_traffic(), played.by_stage()

    assert whole.requests == len(played.outcomes) > 0
    assert sum(figures.requests for figures in by_traffic.values()) == whole.requests
    assert sum(figures.requests for figures in by_stage) == whole.requests
    assert len(by_stage) == 2


def test_a_run_without_an_outcome_has_a_report(played: Run) -> None:
    empty = replace(played, outcomes=[])

    assert report_of(empty)["requests"] == 0
