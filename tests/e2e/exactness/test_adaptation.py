"""Traffic of a tenant that agreed is recorded, a head is trained on it, and it comes to serve."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from engine.errors import TrafficError
from engine.traffic import AdaptFolder, Seal, list_segments, read_segment
from tests.e2e.exactness.conftest import profile, speculation
from tests.e2e.exactness.heads import write_worse_head
from tests.e2e.exactness.prompts import make_prose
from tests.e2e.exactness.worker import RUNNER, Worker, good_head, starting_worker

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

_SECONDS = 300 if RUNNER == "v1" else 800
_KEY = bytes(range(32))
_TENANT = "agrees"
_BODIES = [
    {"prompt": prompt, "max_tokens": 64, "vllm_xargs": {"specgate_tenant": "does not agree"}}
    for prompt in make_prose(16, seed=41)
]
_AGREED = [
    {**body, "vllm_xargs": {"specgate_tenant": _TENANT, "specgate_adapt": 1}} for body in _BODIES
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> AdaptFolder:
    return AdaptFolder(tmp_path_factory.mktemp("adapting") / "adapt")


@pytest.fixture(scope="module")
def worker(folder: AdaptFolder) -> Iterator[Worker]:
    """A worker whose head has much to learn: it is the shipped one with noise in its weights."""
    above = folder.root.parent
    (above / "key").write_bytes(_KEY)
    head = {
        "path": str(write_worse_head(above / "worse", good_head(above / "good"))),
        "adapt": {
            "folder": str(folder.root),
            "key_file": str(above / "key"),
            "every_tokens": 800,
        },
    }
    with starting_worker(
        above, profile(vllm={}, speculation=speculation(sources=["head"], head=head))
    ) as started:
        started.wait_ready()
        yield started


def part_of(worker: Worker, name: str) -> dict[str, Any]:
    (engine,) = worker.client.get("/speculation").json()["engines"]
    found: dict[str, Any] = engine.get(name) or {}
    return found


def states_of_changes(worker: Worker) -> dict[str, str]:
    """What became of each command; those of the watched folder begin with `watch`."""
    changes = part_of(worker, "heads")["changes"]
    return {change["id"]: change["state"] for change in changes}


def test_traffic_trains_a_head_that_comes_to_serve(worker: Worker, folder: AdaptFolder) -> None:
    first = part_of(worker, "heads")["serving"]["version"]
    expected = worker.plain().ask_all(_BODIES)

    assert worker.ask_all(_BODIES) == expected
    worker.wait_idle()
    assert list_segments(folder.segments(0)) == []  # nobody has agreed yet

    assert worker.ask_all(_AGREED) == expected
    worker.wait_idle()
    # The trainer has the lowest priority: it gets the cores that nobody else wants.
    worker.wait_for("engine_adapt_trainings_total", above=0, seconds=_SECONDS, outcome="published")
    deadline = time.monotonic() + _SECONDS
    while "adopted" not in states_of_changes(worker).values():
        assert worker.ask_all(_BODIES) == expected
        assert time.monotonic() < deadline, f"{part_of(worker, 'adapt')}\n{worker.last_lines()}"

    report = part_of(worker, "adapt")
    serving = part_of(worker, "heads")["serving"]
    assert (serving["name"], serving["version"] != first) == ("head", True)
    assert report["trainings"]["published"] >= 1, report
    assert sum(report["dropped_segments"].values()) == report["trainings"]["killed"] == 0
    assert worker.ask_all(_BODIES) == expected
    worker.wait_for("engine_adapt_tokens_total", above=800)
    assert worker.metric("engine_spec_fallbacks_total") == 0


def test_what_is_on_disk_needs_the_key(worker: Worker, folder: AdaptFolder) -> None:
    path, *_ = list_segments(folder.segments(0))

    assert read_segment(path, Seal(_KEY)).answer_tokens > 0
    with pytest.raises(TrafficError):
        read_segment(path, Seal())


def test_it_is_deleted_on_request(worker: Worker, folder: AdaptFolder) -> None:
    worker.wait_idle()
    sent = worker.post("/heads", {"action": "forget_traffic", "tenant": _TENANT, "by": "test"})

    deadline = time.monotonic() + 15
    while states_of_changes(worker).get(sent["id"]) in (None, "loading"):
        assert time.monotonic() < deadline
        time.sleep(0.1)

    assert states_of_changes(worker)[sent["id"]] == "deleted"
    assert list_segments(folder.segments(0)) == []
