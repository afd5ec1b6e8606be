import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from engine.worker.metrics import AcceptanceMetrics, DraftingMetrics, SamplingMetrics
from gateway.telemetry import GatewayMetrics
from monitoring.__main__ import CHART, generated, stale, write


def test_the_charts_files_are_up_to_date() -> None:
    assert stale(CHART) == []


def test_changed_and_unknown_files_are_found_and_repaired(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "rules" / "alerts.yaml").write_text("groups: []\n", encoding="utf-8")
    (tmp_path / "dashboards" / "old.json").write_text("{}\n", encoding="utf-8")

    found = stale(tmp_path)
    write(tmp_path)

    assert found == ["dashboards/old.json", "rules/alerts.yaml"]
    assert stale(tmp_path) == []


def test_missing_files_are_found(tmp_path: Path) -> None:
    assert stale(tmp_path) == sorted(generated())


def test_all_queried_metrics_exist() -> None:
    registry = CollectorRegistry()
    GatewayMetrics(registry)
    AcceptanceMetrics(registry)
    DraftingMetrics(registry)
    SamplingMetrics(registry)
    families = list(registry.collect())
    known = {
        f"{family.name}{suffix}"
        for family in families
        for suffix in {
            "counter": ("_total",),
            "gauge": ("",),
            "histogram": ("_bucket", "_sum", "_count"),
        }[family.type]
    }

    text = "\n".join(generated().values())
    queried = set(re.findall(r"(?<![\w:])(?:gateway|engine)_\w+\b(?![:\w])", text))
    assert len(queried) > 30
    assert queried - known == set()
