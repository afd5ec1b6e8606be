import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring.dashboards import dashboard_files
from monitoring.dashboards.query import happened
from tests.unit.monitoring.rules.promtool import evaluate, promtool

DASHBOARDS = {name: json.loads(text) for name, text in dashboard_files().items()}
_BUILT_IN = {"datasource", "namespace", "model", "worker", "window"}


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_every_panel_has_a_title_a_description_and_queries(dashboard: dict[str, Any]) -> None:
    titles = [panel["title"] for panel in panels(dashboard)]

    assert all(panel["title"] and panel["description"] for panel in panels(dashboard))
    assert all(panel["targets"] for panel in panels(dashboard))
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_panels_fill_the_grid_without_overlapping(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        cell = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(cell["x"], cell["x"] + cell["w"])
            for y in range(cell["y"], cell["y"] + cell["h"])
        }
        assert not taken & cells, panel["title"]
        taken |= cells

    columns = [x for x, _ in taken]
    assert (min(columns), max(columns)) == (0, 23)
    assert len(taken) == 24 * len({y for _, y in taken})


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_queries_use_only_variables_that_exist(dashboard: dict[str, Any]) -> None:
    defined = {variable["name"] for variable in dashboard["templating"]["list"]}
    queries = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]

    used = {name for query in queries for name in re.findall(r"\$(\w+)", query)}
    assert used <= defined == _BUILT_IN
    assert not [query for query in queries if "@" in query]


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_rates_use_the_window_that_the_reader_chooses(dashboard: dict[str, Any]) -> None:
    queries = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]

    windows = {window for query in queries for window in re.findall(r"\[([^]]+)\]", query)}
    assert windows <= {"$window", "1h"}


def test_prometheus_accepts_all_queries(tmp_path: Path) -> None:
    queries = {
        target["expr"].replace("$window", "5m")
        for dashboard in DASHBOARDS.values()
        for panel in panels(dashboard)
        for target in panel["targets"]
    }
    rules = [{"record": f"query{n}", "expr": query} for n, query in enumerate(sorted(queries))]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), "utf-8")

    done = promtool("check", "rules", str(path))

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(rules)} rules found" in done.stdout


@pytest.mark.parametrize(
    ("values", "count"),
    [("_x20 1x10", 1), ("5x20 7x10", 2), ("5x30", 0)],
    ids=["first one", "two more", "long ago"],
)
def test_rare_events_are_counted_from_the_first(tmp_path: Path, values: str, count: int) -> None:
    query = f"round(sum({happened('x').replace('$window', '10m')}))"
    expected = [{"labels": "{}", "value": count}]

    assert evaluate(tmp_path, {"x": values}, query, at="25m", expected=expected) == ""
