"""Draft heads come and go while a worker serves: no request fails, and no text changes.

Where steps are launched ahead, they wait while heads are compared.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.exactness.answers import Answer
from tests.e2e.exactness.conftest import profile, speculation
from tests.e2e.exactness.heads import write_worse_head
from tests.e2e.exactness.prompts import make_prose
from tests.e2e.exactness.worker import RUNNER, Worker, good_head, starting_worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

_END = ("adopted", "failed", "forgotten", "kept", "refused", "replaced", "rolled_back", "unloaded")
_SECONDS = 400 if RUNNER == "v1" else 800
_BODIES = [{"prompt": prompt, "max_tokens": 48} for prompt in make_prose(6, seed=31)]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return good_head(tmp_path_factory.mktemp("good") / "head")


@pytest.fixture(scope="module")
def worse(good: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_worse_head(tmp_path_factory.mktemp("heads") / "worse", good)


@pytest.fixture(scope="module")
def worker(worse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    settings = speculation(sources=["head"], head={"path": str(worse)})
    folder = tmp_path_factory.mktemp("swapping")
    with starting_worker(folder, profile(vllm={}, speculation=settings)) as started:
        started.wait_ready()
        yield started


@pytest.fixture(scope="module")
def expected(worker: Worker) -> list[Answer]:
    return worker.plain().ask_all(_BODIES)


def heads_of(worker: Worker) -> dict[str, Any]:
    (engine,) = worker.client.get("/speculation").json()["engines"]
    found: dict[str, Any] = engine["heads"]
    return found


def command(worker: Worker, action: str, folder: Path | None = None) -> dict[str, Any]:
    """Send a command; return what became of it."""
    body = {"action": action, "by": "test"}
    if folder is not None:
        body["folder"] = str(folder)
    sent = worker.client.post("/heads", json=body)
    assert sent.status_code == 200, sent.text
    deadline = time.monotonic() + _SECONDS
    while True:
        found = {change["id"]: change for change in heads_of(worker)["changes"]}
        change: dict[str, Any] = found.get(sent.json()["id"], {"state": None})
        if change["state"] in _END:
            return change
        assert time.monotonic() < deadline, f"{heads_of(worker)}\n{worker.last_lines()}"
        time.sleep(0.2)


@contextmanager
def traffic(worker: Worker, expected: list[Answer]) -> Iterator[None]:
    """Ask the same questions all the time; each answer must be the target's own."""
    ended, asked = threading.Event(), []

    def ask() -> None:
        while not ended.is_set():
            asked.append(worker.ask_all(_BODIES))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        ended.set()
        asking.join()
    assert asked
    assert all(answers == expected for answers in asked)


def test_heads_come_and_go_while_texts_stay(
    worker: Worker, expected: list[Answer], good: Path, worse: Path, tmp_path: Path
) -> None:
    first = heads_of(worker)["serving"]["version"]
    broken = tmp_path / "broken"
    shutil.copytree(good, broken)
    (broken / "model.safetensors").write_bytes(b"nothing")

    with traffic(worker, expected):
        refused = command(worker, "load", broken)
        adopted = command(worker, "load", good)
        forgotten = command(worker, "forget")
        kept = command(worker, "load", worse)
        unloaded = command(worker, "unload")
        again = command(worker, "load", good)

    assert (refused["state"], refused["version"]) == ("refused", None)
    assert "damaged" in refused["why"]
    assert (adopted["state"], forgotten["version"]) == ("adopted", first), adopted
    assert (kept["state"], kept["version"]) == ("kept", first), kept
    assert (unloaded["state"], unloaded["version"]) == ("unloaded", adopted["version"])
    assert (again["state"], again["version"]) == ("adopted", adopted["version"])
    assert heads_of(worker)["serving"]["version"] == adopted["version"]
    worker.wait_for("engine_head_info", above=0, version=adopted["version"], role="serving")
    assert worker.metric("engine_head_info", version=first) == 0
    assert worker.metric("engine_head_changes_total", result="adopted") == 2
    assert worker.metric("engine_spec_fallbacks_total") == 0
    assert worker.metric("engine_spec_accepted_tokens_total", source="head") > 0
