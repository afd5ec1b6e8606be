"""Write docs/metrics.md, docs/settings.md and docs/vllm.md from the code that defines them.

usage: python -m scripts.write_docs [--check]

With --check nothing is written; the exit status is 1 if a page is out of date.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engine.config import EngineSettings
from engine.worker.metrics import (
    AcceptanceMetrics,
    AdaptMetrics,
    DraftingMetrics,
    ExactnessMetrics,
    HeadMetrics,
    SamplingMetrics,
)
from engine.worker.versions import TESTED_VLLM_VERSIONS
from gateway.settings import GatewaySettings
from gateway.telemetry import GatewayMetrics
from helm.generate import write_files
from scripts.vllm_contract import find_patches, find_subclasses, find_uses, purpose_of

_DOCS = Path(__file__).parent.parent / "docs"
_GENERATED = "<!-- Written by scripts/write_docs.py (`make docs`); do not edit. -->\n\n"


class _Page(CollectorRegistry):
    """A registry that writes a table row for each metric, in the order of registration."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[str] = []

    def register(self, collector: object) -> None:
        """Register a metric and add its row."""
        super().register(collector)  # type: ignore[arg-type]  # any metric of the library
        kind = type(collector).__name__.lower()
        family = next(iter(collector.describe()))  # type: ignore[attr-defined]  # every metric has it
        name = f"{family.name}_total" if kind == "counter" else family.name
        labels = ", ".join(collector._labelnames) or "-"  # type: ignore[attr-defined]  # the library shows labels nowhere else
        self.rows.append(f"| `{name}` | {kind} | {labels} | {family.documentation} |")


def metrics_page() -> str:
    """Return docs/metrics.md: a table of the gateway's metrics and one of the engine's."""
    gateway, engine = _Page(), _Page()
    GatewayMetrics(gateway)
    AcceptanceMetrics(engine)
    DraftingMetrics(engine)
    HeadMetrics(engine)
    AdaptMetrics(engine)
    SamplingMetrics(engine)
    ExactnessMetrics(engine)
    table = "| name | type | labels | meaning |\n|---|---|---|---|\n"
    head = (
        "# Metrics\n\n"
        "The gateway serves these on `/metrics`, in Prometheus text or, when the scraper asks\n"
        "for it, OpenMetrics; there `gateway_request_acceptance_ratio` carries the request id as\n"
        "an exemplar (one gateway process only).\n\n"
        "Labels come from closed sets: `model` is a served name or `unknown`, `endpoint` a path\n"
        "of the gateway or `other`, `worker` is `local` or a remote worker's host and port.\n\n"
    )
    worker = (
        "\n## Metrics of the worker\n\n"
        "A worker with speculation serves these on its own `/metrics`, beside vLLM's `vllm:*`.\n"
        "`source` is `suffix`, `head` or `native`. Counters lag by up to a second. The gateway\n"
        "serves the metrics of a worker that it started as `/metrics/worker`.\n\n"
    )
    tables = (table + "\n".join(page.rows) + "\n" for page in (gateway, engine))
    return _GENERATED + head + next(tables) + worker + next(tables)


def settings_page() -> str:
    """Return docs/settings.md: tables of both programs' settings."""
    parts = [
        _GENERATED + "# Settings\n\nA profile is one YAML file with the sections `gateway:` and "
        "`engine:`. Environment variables override it:\n`gateway.port` is "
        "`SPECGATE_GATEWAY__PORT`, `gateway.keys.file` is `SPECGATE_GATEWAY__KEYS__FILE`.\n"
        "Unknown names are refused at start. `specgate check-config` prints the effective "
        "settings.\n",
        *_section("gateway", GatewaySettings),
        *_section("engine", EngineSettings),
    ]
    return "\n".join(parts)


_KNOWN_WHEN = """
## What is known when

With async scheduling a step is either scheduled when the tokens of the last one are known (it
waits), or while that one computes (it is launched ahead; [ADR 35](adr/0035-async-scheduling.md)).
Of a step in flight nothing is read but what was scheduled for it; `test_runner.py` in
`tests/unit/engine/worker/v2` holds that.

| when step n + 1 is drafted for | it waits | launched ahead |
|---|---|---|
| tokens | up to step n | up to step n - 1; step n is in flight |
| acceptance, which calibrates sources and trust | of drafts up to step n | up to step n - 1 |
| lengths of the drafts in step n | verified | scheduled |
| hidden states, for our heads | of step n | of step n, on the device only |
| recorded traffic | of step n, prompts included | of step n - 1, without prompts |
| drafts of our heads | tokens, probabilities | how many; they stay on the device |
| drafts of vLLM's own drafter | tokens, copied to the CPU | how many; they stay on the device |
| load: sequences, prompts, room | as of scheduling step n | as of scheduling step n - 1 |
| step times, for the gate's costs | up to step n - 1 | up to step n - 2 |
"""


def vllm_page() -> str:
    """Return docs/vllm.md: what each of our files uses of vLLM, and why."""
    head = (
        "# What we use of vLLM\n\n"
        f"Tested with {' and '.join(TESTED_VLLM_VERSIONS)}. `tests/unit/scripts` reads "
        "the sources of these releases and tells\nwhether all of this is there: imports, the "
        "signatures of what we override, what our subclasses read, what we replace.\n"
        "For a new release: add it to `engine/worker/versions.py`, "
        "`python -m scripts.fetch_vllm`, run these tests.\n\n"
        "Below, modules are without `vllm.`; nothing else in the project imports vLLM.\n\n"
    )
    used: dict[str, list[str]] = {}
    for use in find_uses():
        module = use.module.removeprefix("vllm").removeprefix(".")
        name = f"{module}.{use.name}".strip(".") or "vllm"
        if name not in used.setdefault(use.file, []):
            used[use.file].append(name)
    rows = [
        f"| `{file}` | {purpose_of(file)} | {', '.join(f'`{name}`' for name in names)} |"
        for file, names in used.items()
    ]
    extended = [f"| `{one.file}` | `{one.name}` | `{one.base}` |" for one in find_subclasses()]
    replaced = [f"| `{file}` | `{target}` |" for file, target in find_patches()]
    tables = (
        ("| our file | what for | what it imports |\n|---|---|---|\n", rows),
        (
            "\n## Classes that we extend\n\n| our file | class | vLLM's |\n|---|---|---|\n",
            extended,
        ),
        ("\n## What we replace\n\n| our file | of vLLM |\n|---|---|\n", replaced),
    )
    body = "".join(top + "\n".join(rows) + "\n" for top, rows in tables)
    return _GENERATED + head + body + _KNOWN_WHEN


def _section(name: str, model: type[BaseModel]) -> Iterator[str]:
    """Yield a table of a model's own fields, then the tables of the models inside it."""
    defaults = {
        key: field.get_default(call_default_factory=True)
        for key, field in model.model_fields.items()
    }
    nested = {key: type(value) for key, value in defaults.items() if isinstance(value, BaseModel)}
    rows = [
        f"| `{key}` | {_default(field)} | {field.description} |"
        for key, field in model.model_fields.items()
        if key not in nested
    ]
    yield f"## {name}\n\n| setting | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    for key, inner in nested.items():
        yield from _section(f"{name}.{key}", inner)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value == () or value == {}:
        return "-"
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value}`"


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if stale"
    )
    files = {
        _DOCS / "metrics.md": metrics_page(),
        _DOCS / "settings.md": settings_page(),
        _DOCS / "vllm.md": vllm_page(),
    }
    return write_files(files, check=parser.parse_args().check)


if __name__ == "__main__":
    sys.exit(main())
