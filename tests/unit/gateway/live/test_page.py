from typing import Any

from gateway import __version__
from gateway.live.history import History
from gateway.live.page import Links, WorkerView, build_page
from gateway.live.report import read_report
from gateway.supervisor import SupervisorFacts
from gateway.telemetry import WorkerTotals
from gateway.types import WorkerId
from tests.unit.gateway.live.samples import W, distribution, sample, totals
from tests.unit.gateway.live.test_report import report

LINKS = Links("https://dashboards", "https://runbook")
SERIES = {
    "tokens_per_second", "requests_per_second", "active", "queue", "ttft_p50", "ttft_p99",
    "gap_raw_p50", "gap_raw_p99", "gap_paced_p50", "gap_paced_p99", "price",
    "drafted_per_second", "acceptance",
}  # fmt: skip


def page(*samples: Any, workers: tuple[WorkerView, ...] = ()) -> dict[str, Any]:
    history = History()
    for one in samples:
        history.add(one)
    return build_page(list(history), workers, every_seconds=5.0, links=LINKS)


def test_before_the_first_interval_all_is_empty() -> None:
    found = page(sample(0.0))

    assert found["every_seconds"] == 5.0
    assert found["version"] == __version__
    assert found["times"] == []
    assert set(found["series"]) == SERIES
    assert found["series"]["queue"] == []
    assert found["series"]["acceptance"] == {}
    assert found["gaps"] == {"bounds_seconds": [], "raw": [], "paced": []}
    assert found["links"] == {"dashboards": "https://dashboards", "runbook": "https://runbook"}


def test_series_are_as_long_as_the_times() -> None:
    found = page(
        sample(0.0, drafts={(W, 0, "suffix"): (0, 0)}),
        sample(5.0, totals(active=1), prices=(0.5,), drafts={(W, 0, "suffix"): (10, 4)}),
        sample(10.0, totals(active=2)),
        sample(15.0, drafts={(W, 0, "head"): (1, 1)}),
        sample(20.0, drafts={(W, 0, "head"): (1, 1)}),
    )

    series = found["series"]
    assert found["times"] == [1005.0, 1010.0, 1015.0, 1020.0]
    assert series["active"] == [1, 2, 0, 0]
    assert series["price"] == [0.5, None, None, None]
    assert list(series["drafted_per_second"].items()) == [
        ("suffix", [2.0, None, None, None]),
        ("head", [None, None, None, 0.0]),
    ]
    assert series["acceptance"] == {
        "suffix": [0.4, None, None, None],
        "head": [None, None, None, None],
    }


def test_gaps_are_those_of_the_whole_time() -> None:
    found = page(
        sample(0.0, totals(raw=distribution(7, 0, 0))),
        sample(5.0, totals(raw=distribution(9, 1, 0), paced=distribution(0, 2, 0))),
        sample(10.0, totals(raw=distribution(9, 1, 3), paced=distribution(0, 4, 0))),
    )

    assert found["gaps"] == {
        "bounds_seconds": (0.01, 0.1),
        "raw": [2, 1, 3],
        "paced": [0, 4, 0],
    }


def test_a_worker_has_all_that_is_known_of_it() -> None:
    view = WorkerView(
        WorkerId("local"),
        ("m",),
        SupervisorFacts("ready", 7, 1, "exited"),
        WorkerTotals(True, False, 2, 3),
        read_report(report()),
        1000.5,
    )

    (found,) = page(workers=(view,))["workers"]

    (engine,) = found.pop("engines")
    assert found == {
        "worker": "local",
        "up": True,
        "ejected": False,
        "ejections": 2,
        "in_flight": 3,
        "models": ("m",),
        "supervisor": {"state": "ready", "pid": 7, "restarts": 1, "last_reason": "exited"},
        "error": None,
        "reported": 1000.5,
    }
    assert set(engine) == {
        "engine", "price", "trust", "goodput_tokens_per_second", "measured_over_expected",
        "step_ms", "pass_ms", "verification_ms", "decisions", "launch", "sources", "head", "trial",
    }  # fmt: skip


def test_a_worker_of_which_nothing_is_known_is_shown() -> None:
    (found,) = page(workers=(WorkerView(W, error="The worker is not up."),))["workers"]

    assert (found["up"], found["supervisor"], found["engines"]) == (False, None, [])
    assert found["error"] == "The worker is not up."
