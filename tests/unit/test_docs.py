"""The pages of docs/ say what the code says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from gateway.telemetry import GatewayMetrics

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_generated_pages_are_up_to_date() -> None:
    ran = subprocess.run(
        [sys.executable, "scripts/write_docs.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_only_metrics_that_exist(page: Path) -> None:
    registry = CollectorRegistry()
    GatewayMetrics(registry)
    known = {sample.name for family in registry.collect() for sample in family.samples}
    known |= {family.name for family in registry.collect()}
    known |= {f"{family.name}_total" for family in registry.collect()}

    named = set(re.findall(r"`(gateway_\w+)", page.read_text(encoding="utf-8")))

    assert named <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []
