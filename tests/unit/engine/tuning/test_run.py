import asyncio
from collections import Counter
from pathlib import Path

import pytest

from engine.config import load_settings
from engine.tuning import measure, run
from engine.tuning.run import Job, Tuning
from engine.tuning.state import State
from engine.tuning.variants import find_variants
from engine.tuning.workload import Prompt, Workload
from tests.unit.engine.tuning.stand_in import Starts

PROMPTS = [Prompt([number, 1], 12) for number in range(40)]
KEY = {"model": "tiny"}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_REPORT_SECONDS", 0.0)
    monkeypatch.setattr(measure, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(run, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(run, "_CELL_SECONDS", 0.01)
    monkeypatch.setattr(run, "_START_SECONDS", 0.0)
    monkeypatch.setattr(run, "available_mib", lambda: 1e6)


class Clock:
    """A second passes whenever it is read."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 1.0
        return self._now


def job(minutes: float = 1.0, **fields: object) -> Job:
    settings = load_settings(None, environ={}, overrides={"vllm": {"max_num_seqs": 4}})
    given: dict[str, object] = {
        "settings": settings,
        "served": "tiny",
        "workload": Workload("chat", PROMPTS, "", Counter()),
        "variants": find_variants(settings, None),
        "concurrency": [1, 8],
        "minutes": minutes,
        "finalists": 3,
    }
    return Job(**{**given, **fields})  # type: ignore[arg-type]  # of the right types above


def tune(
    folder: Path, starts: Starts, monkeypatch: pytest.MonkeyPatch, job: Job
) -> tuple[Tuning, list[str]]:
    monkeypatch.setattr(run, "starting_writer", starts)
    said: list[str] = []
    tuning = Tuning(job, State(folder, KEY), said.append, Clock())
    asyncio.run(tuning.carry_out())
    return tuning, said


def test_all_are_measured_and_three_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = Starts()

    tuning, _ = tune(tmp_path, starts, monkeypatch, job())

    found = tuning.findings()
    assert found is not None
    assert starts.started == ["off", "suffix", "head", "suffix+head"]
    assert starts.running == 0
    assert len(found.rounds) == 3
    assert all(set(by_load) == {1, 8} for by_load in found.rounds.values())
    assert found.chosen in found.rounds


def test_more_clients_than_seats_wait() -> None:
    assert job().seats == {1: 1, 8: 4}


def test_workers_have_an_index_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = Starts()

    tune(tmp_path, starts, monkeypatch, job())

    sections = [worker.profile["speculation"] for worker in starts.workers]
    assert all(section["suffix"]["warm_start"] is False for section in sections)


def test_a_second_call_measures_only_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(tmp_path, Starts(), monkeypatch, job())
    (tmp_path / "measured" / "alone-head.json").unlink()
    starts = Starts()

    tune(tmp_path, starts, monkeypatch, job(minutes=2.0, finalists=2))

    assert starts.started[0] == "head"
    assert len(starts.started) <= 3


def test_without_time_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    State(tmp_path, KEY).spend(100.0)
    starts = Starts()

    tuning, said = tune(tmp_path, starts, monkeypatch, job())

    assert starts.started == []
    assert tuning.findings() is None
    assert said == ["the time is up: not measured: off, suffix, head, suffix+head"]


def test_a_variant_that_fails_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning, _ = tune(tmp_path, Starts("head"), monkeypatch, job())

    found = tuning.findings()
    assert found is not None
    assert "head" not in found.order
    assert tuning.failed == {"head": "the worker failed: it is a test"}


def test_what_does_not_fit_in_memory_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Too little to keep a worker while four are measured, and then enough for two.
    free = iter([100.0] * 4 + [1000.0])
    monkeypatch.setattr(run, "available_mib", lambda: next(free))
    monkeypatch.setattr(measure, "memory_mib", lambda pid: 400.0)

    tuning, _ = tune(tmp_path, Starts(), monkeypatch, job())

    found = tuning.findings()
    assert found is not None
    assert len(found.rounds) == 2


def test_ctrl_c_stops_the_worker_and_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = Starts()
    monkeypatch.setattr(run, "starting_writer", starts)
    state = State(tmp_path, KEY)

    def interrupt(line: str) -> None:
        if line.startswith("head: starting"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(Tuning(job(), state, interrupt).carry_out())

    assert starts.running == 0
    assert state.names("alone-") == ["alone-off", "alone-suffix"]
    assert Tuning(job(), state, print).findings() is not None
