"""Documents name only what exists: metrics, links, paths, decisions, other documents."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from engine.worker.metrics import (
    AcceptanceMetrics,
    AdaptMetrics,
    DraftingMetrics,
    ExactnessMetrics,
    HeadMetrics,
    SamplingMetrics,
)
from gateway.telemetry import GatewayMetrics

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
GENERATED = [
    *sorted((ROOT / "helm/specgate/dashboards").glob("*.json")),
    *sorted((ROOT / "helm/specgate/rules").glob("*.yaml")),
    *sorted((ROOT / "helm/specgate/files/rules").glob("*.yaml")),
]

METRIC = r"(?<![\w:./{])(?:gateway|engine)_[a-z0-9_]*[a-z0-9]\b(?![\w:./])"
# The history names what is gone, and these lines are the patterns themselves.
UNCHECKED = {"CHANGELOG.md", "tests/unit/test_docs.py"}
ABSENT = (
    r"\b(?:DESIGN|HOUSE_STYLE|[A-Z0-9]+_NOTES)\b|\b(?:DESIGN|BENCH)\.md\b"
    r"|\b[Ii]ssue [A-Z]\b|\b[Ss]essions? (?:\d+|one|two|three|four|five|six|seven|eight|nine|ten)\b"
    r"|\bnotes, \"|\bof the notes\b"
)


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tracked() -> frozenset[str]:
    """Every file of the repository, and every folder that holds one."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [Path(name) for name in listed.stdout.splitlines() if (ROOT / name).exists()]
    folders = {str(folder) for file in files for folder in file.parents}
    return frozenset({*map(str, files), *folders})


@cache
def metrics() -> frozenset[str]:
    """The name of every metric of gateway and worker, with and without its suffixes."""
    registry = CollectorRegistry()
    GatewayMetrics(registry)
    AcceptanceMetrics(registry)
    DraftingMetrics(registry)
    HeadMetrics(registry)
    AdaptMetrics(registry)
    SamplingMetrics(registry)
    ExactnessMetrics(registry)
    endings = ("", "_total", "_bucket", "_sum", "_count")
    return frozenset(f"{family.name}{end}" for family in registry.collect() for end in endings)


def anchors(page: Path) -> set[str]:
    """What a link may name in a page, as GitHub makes it of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def paths_named(text: str) -> Iterator[str]:
    """Paths in code font that begin with a folder of this repository."""
    tops = {name for name in tracked() if "/" not in name and (ROOT / name).is_dir()} - {"."}
    for code in re.findall(r"`([^`\n]+)`", text):
        for word in re.findall(r"(?<![\w./~<-])[\w.-]+/[\w./*{},-]*", code):
            if word.split("/")[0] in tops:
                yield word.rstrip(".,")


def exists(path: str) -> bool:
    if "*" in path:
        return any(ROOT.glob(path))
    return path.rstrip("/") in tracked()


def test_generated_pages_are_up_to_date() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "scripts.write_docs", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", [*PAGES, *GENERATED], ids=ids)
def test_metrics_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        text = "\n".join(re.findall(r"`([^`\n]+)`", text))

    named = set(re.findall(METRIC, text))

    assert named - metrics() == set()


def test_the_search_for_metrics_finds_both_kinds() -> None:
    text = '`engine_spec_price`, sum(rate(gateway_requests_total{outcome="a"}[5m])) x:engine_y:z'

    assert re.findall(METRIC, text) == ["engine_spec_price", "gateway_requests_total"]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=ids)
def test_relative_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^):]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_paths_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert [path for path in paths_named(text) if not exists(path)] == []


def test_no_text_names_a_document_that_is_not_in_the_repository() -> None:
    documents = {Path(name).name for name in tracked() if name.endswith(".md")}
    decisions = {name[:4] for name in documents if re.match(r"\d{4}-", name)}
    found = []
    for name in sorted(tracked() - UNCHECKED):
        file = ROOT / name
        if not file.is_file() or file.suffix in {".png", ".svg", ".safetensors", ".jsonl"}:
            continue
        text = re.sub(r"https?://\S+", "", file.read_text(encoding="utf-8", errors="ignore"))
        found += [f"{name}: {match}" for match in re.findall(ABSENT, text)]
        found += [
            f"{name}: {document}"
            for document in re.findall(r"(?<![\w/*.-])(?:[\w.-]+/)*([\w-]+\.md)\b", text)
            if document not in documents
        ]
        numbers = re.findall(r"\badr/(\d{4})", text) + [
            number.zfill(4) for number in re.findall(r"\bADRs? (\d+)\b", text)
        ]
        found += [f"{name}: ADR {number}" for number in numbers if number not in decisions]

    assert found == []
