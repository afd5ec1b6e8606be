"""Runs promtool: checks rules, and evaluates them on given series."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from monitoring.rules import rule_files
from tests.tools import find_tool

_SECONDS = 30


def write_rules(folder: Path) -> list[str]:
    """Write the generated rule files and return their paths."""
    for name, text in rule_files().items():
        (folder / name).write_text(text, encoding="utf-8")
    return [str(folder / name) for name in rule_files()]


def write_needed_rules(folder: Path, query: str) -> str:
    """Write only the rules that a query refers to, since evaluating all of them takes seconds.

    Args:
        folder: Where to write the file.
        query: May name recorded series, and alerts as `ALERTS{alertname="..."}`.

    Returns:
        The file's path.
    """
    groups = [yaml.safe_load(text)["groups"][0] for text in rule_files().values()]
    named = {
        rule.get("record") or rule["alert"]: rule for group in groups for rule in group["rules"]
    }
    needed: set[str] = set()
    pending = [query]
    while pending:
        found = (set(re.findall(r"[\w:]+", pending.pop())) & named.keys()) - needed
        needed |= found
        pending += [named[name]["expr"] for name in found]
    for group in groups:
        group["rules"] = [rule for rule in group["rules"] if rule in map(named.get, needed)]
    path = folder / "needed.yaml"
    path.write_text(yaml.safe_dump({"groups": [g for g in groups if g["rules"]]}), encoding="utf-8")
    return str(path)


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    command = find_tool("promtool")
    return subprocess.run(
        [command, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
    )


def evaluate(
    folder: Path, series: Mapping[str, str], query: str, *, at: str, expected: list[dict[str, Any]]
) -> str:
    """Evaluate the rules on series with a sample per minute, and compare a query's result.

    Args:
        folder: An empty folder.
        series: Selectors and values, in promtool's notation.
        query: PromQL over the series, recorded series and `ALERTS`.
        at: Time of the evaluation, from the start.
        expected: Labels and value of each sample.

    Returns:
        promtool's output about differences; empty if there are none.
    """
    test = {
        "rule_files": [write_needed_rules(folder, query)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": s, "values": v} for s, v in series.items()],
                "promql_expr_test": [{"expr": query, "eval_time": at, "exp_samples": expected}],
            }
        ],
    }
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump(test), encoding="utf-8")
    done = promtool("test", "rules", str(path))
    return "" if done.returncode == 0 else done.stdout + done.stderr
