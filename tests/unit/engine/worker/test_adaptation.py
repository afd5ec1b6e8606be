"""The worker's part of learning from traffic: files, metrics, and a trainer that comes and goes."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from prometheus_client import CollectorRegistry

from engine.config import AdaptSettings
from engine.drafting import Control
from engine.errors import TrafficError
from engine.heads import SharedTables
from engine.traffic import AdaptFolder, Ring, Seal, digest_of, list_segments
from engine.worker import adaptation as room
from engine.worker.adaptation import Adaptation, TrainerProcess
from engine.worker.head import StepStates
from engine.worker.metrics import AdaptMetrics
from engine.worker.report import ReportPart
from tests.unit.engine.traffic.segments import segment


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> CollectorRegistry:
    registry = CollectorRegistry()
    monkeypatch.setattr(room, "AdaptMetrics", lambda: AdaptMetrics(registry))
    return registry


@pytest.fixture
def adaptation(tmp_path: Path, registry: CollectorRegistry) -> Iterator[Adaptation]:
    found = make(tmp_path)
    yield found
    found.stop()


def make(folder: Path, **settings: Any) -> Adaptation:
    return Adaptation(
        AdaptSettings(folder=folder / "adapt", **settings),
        lambda request: Control(tenant=request, adapt=True),
        rank=0,
        ranks=1,
        target="a model",
        report=ReportPart(folder, "adapt", 0),
    )


def answer(adaptation: Adaptation, tenant: str) -> None:
    """Record an answer of 10 tokens."""
    states = StepStates(torch.ones(11, 8), [10])
    adaptation.recorder.take([tenant], [list(range(10))], states)
    adaptation.recorder.forget([tenant])


def stored(folder: Path, *, count: int) -> list[Path]:
    deadline = time.monotonic() + 10
    while len(found := list_segments(AdaptFolder(folder / "adapt").segments(0))) != count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def test_traffic_is_stored_and_counted(
    adaptation: Adaptation, tmp_path: Path, registry: CollectorRegistry
) -> None:
    answer(adaptation, "acme")
    (path,) = stored(tmp_path, count=1)
    AdaptFolder(tmp_path / "adapt").write_status({"outcomes": {"published": 2}, "last": {"a": 1}})

    deadline = time.monotonic() + 10
    while registry.get_sample_value("engine_adapt_tokens_total") != 10:
        adaptation.publish(tmp_path)
        assert time.monotonic() < deadline

    assert registry.get_sample_value("engine_adapt_bytes") == path.stat().st_size
    trainings = "engine_adapt_trainings_total"
    assert registry.get_sample_value(trainings, {"outcome": "published"}) == 2
    assert registry.get_sample_value(trainings, {"outcome": "killed"}) == 0
    report = json.loads((tmp_path / "specgate-0-adapt.json").read_text())
    assert (report["tokens"], report["last_training"]) == (10, {"a": 1})
    assert AdaptFolder(tmp_path / "adapt").read_serving() == (tmp_path, digest_of("a model"))


def test_a_tenant_is_forgotten_on_all_ranks(adaptation: Adaptation, tmp_path: Path) -> None:
    folder = AdaptFolder(tmp_path / "adapt")
    gone = Ring(folder.segments(7), max_bytes=1 << 20, seal=Seal())
    gone.write(segment("acme"), began_ns=time.time_ns())
    for tenant in ("acme", "other"):
        answer(adaptation, tenant)
    stored(tmp_path, count=2)

    assert adaptation.delete("acme") == 2

    assert folder.last_deletion() > 0
    assert digest_of("other") in stored(tmp_path, count=1)[0].name
    assert list_segments(folder.segments(7)) == []
    assert adaptation.delete(None) == 1


def test_a_folder_that_cannot_be_written_drops_traffic_only(
    tmp_path: Path, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "adapt").write_text("a file, where a folder should be")
    adaptation = make(tmp_path)

    adaptation.start(SharedTables(torch.ones(4, 2), None), None)
    answer(adaptation, "acme")
    adaptation.stop()
    with pytest.raises(OSError, match="adapt"):  # which `Periodic` logs
        adaptation.publish(tmp_path)

    assert "the head cannot adapt" in caplog.text
    dropped = "engine_adapt_dropped_segments_total"
    assert registry.get_sample_value(dropped, {"reason": "disk"}) == 1


def test_a_key_that_cannot_be_used_stops_the_start(
    tmp_path: Path, registry: CollectorRegistry
) -> None:
    with pytest.raises(TrafficError, match="the key cannot be read"):
        make(tmp_path, key_file=tmp_path / "missing")


def run(process: TrainerProcess, *, until_killed: int) -> None:
    deadline = time.monotonic() + 20
    while process.killed < until_killed:
        process.look()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_trainer_that_ends_is_started_again_after_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"open({str(tmp_path / 'starts')!r}, 'a').write('x')"
    process = TrainerProcess([sys.executable, "-c", script])
    monkeypatch.setattr(room, "_PAUSE_LOOKS", 3)

    run(process, until_killed=2)
    for _ in range(3):  # the pause
        process.look()
    process.stop()

    assert (tmp_path / "starts").read_text() == "xx"


def test_a_stopped_trainer_stays_away(tmp_path: Path) -> None:
    script = "import time; time.sleep(60)"
    process = TrainerProcess([sys.executable, "-c", script])
    process.look()

    process.stop()
    process.look()

    assert process.killed == 0
    assert process._process is not None
    assert process._process.returncode is not None


def test_the_trainer_gets_one_core_and_no_gpu(tmp_path: Path) -> None:
    out = tmp_path / "environment"
    script = (
        "import os, pathlib; pathlib.Path(__import__('sys').argv[1]).write_text("
        "os.environ['OMP_NUM_THREADS'] + repr(os.environ['CUDA_VISIBLE_DEVICES']))"
    )
    process = TrainerProcess([sys.executable, "-c", script, str(out)])

    run(process, until_killed=1)

    assert out.read_text() == "1''"
