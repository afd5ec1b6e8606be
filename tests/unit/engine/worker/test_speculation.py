"""The report of a drafting rank, without vLLM."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from engine.config import Speculation
from engine.worker import speculation
from engine.worker.metrics import DraftingMetrics, HeadMetrics, SamplingMetrics
from engine.worker.report import ReportPart, read_reports
from engine.worker.step import BatchView


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    for metrics in (DraftingMetrics, HeadMetrics, SamplingMetrics):
        monkeypatch.setattr(speculation, metrics.__name__, partial(metrics, CollectorRegistry()))


def reported(folder: Path, **settings: Any) -> dict[str, Any]:
    """What `GET /speculation` says of an engine that has not decoded yet."""
    rank = speculation.RankSpeculation(
        Speculation.model_validate(settings),
        cast(BatchView, SimpleNamespace()),  # no step asks it for anything
        lambda part: ReportPart(folder, part, 0),
        most_rows=8,
        edges=(),
        vocabulary=100,
        snapshot=None,
    )
    rank.stop()
    found: dict[str, Any] = read_reports(folder)
    (engine,) = found["engines"]
    assert isinstance(engine, dict)
    return engine


def test_each_source_has_a_verdict(tmp_path: Path) -> None:
    engine = reported(tmp_path, sources=["suffix"], suffix={"capacity_mb": 1})

    verdicts = {source["name"]: source["verdict"] for source in engine["sources"]}
    assert verdicts == {
        "suffix": "Idle: no step in the last minute.",
        "head": "Off: not listed in engine.speculation.sources.",
        "native": "Off: not listed in engine.speculation.sources.",
    }


def test_a_head_that_is_not_loaded_is_said(tmp_path: Path) -> None:
    engine = reported(tmp_path, sources=["head"], max_batch_size=4)

    assert engine["sources"][1]["state"] == "absent"
    assert engine["gate"]["max_batch_size"] == 4
    assert engine["gate"]["limited"] is False
    assert set(engine["gate"]["recent_decisions"].values()) == {0}
