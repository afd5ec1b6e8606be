import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from engine.worker.metrics import AcceptanceMetrics, DraftingMetrics
from gateway.telemetry import GatewayMetrics
from monitoring.__main__ import CHART, generated, stale, write


def test_the_chart_holds_what_the_code_says() -> None:
    assert stale(CHART) == []


def test_a_changed_file_and_a_stranger_are_found_and_put_right(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "rules" / "alerts.yaml").write_text("groups: []\n", encoding="utf-8")
    (tmp_path / "dashboards" / "old.json").write_text("{}\n", encoding="utf-8")

    found = stale(tmp_path)
    write(tmp_path)

    assert found == ["dashboards/old.json", "rules/alerts.yaml"]
    assert stale(tmp_path) == []


def test_a_chart_without_files_lacks_all_of_them(tmp_path: Path) -> None:
    assert stale(tmp_path) == sorted(generated())


def test_only_metrics_that_exist_are_asked_for() -> None:
    registry = CollectorRegistry()
    GatewayMetrics(registry)
    AcceptanceMetrics(registry)
    DraftingMetrics(registry)
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
    asked = set(re.findall(r"(?<![\w:])(?:gateway|engine)_\w+\b(?![:\w])", text))
    assert len(asked) > 30
    assert asked - known == set()
