import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from monitoring.dashboards import dashboard_files

DASHBOARDS = {name: json.loads(text) for name, text in dashboard_files().items()}
_BUILT_IN = {"datasource", "namespace", "model", "worker", "window"}


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


def test_there_are_three() -> None:
    assert set(DASHBOARDS) == {"acceptance.json", "latency.json", "fleet.json"}


def test_their_addresses_stay() -> None:
    assert [dashboard["uid"] for dashboard in DASHBOARDS.values()] == [
        "specgate-acceptance",
        "specgate-latency",
        "specgate-fleet",
    ]


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_every_panel_says_what_it_shows(dashboard: dict[str, Any]) -> None:
    titles = [panel["title"] for panel in panels(dashboard)]

    assert all(panel["title"] and panel["description"] for panel in panels(dashboard))
    assert all(panel["targets"] for panel in panels(dashboard))
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_panels_fill_rows_and_none_lies_on_another(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        taken |= cells

    columns = [x for x, _ in taken]
    assert (min(columns), max(columns)) == (0, 23)
    assert len(taken) == 24 * len({y for _, y in taken})


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_ids_are_unique_and_follow_the_order(dashboard: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in dashboard["panels"]]

    assert ids == list(range(1, len(ids) + 1))


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_queries_use_only_variables_that_there_are(dashboard: dict[str, Any]) -> None:
    defined = {variable["name"] for variable in dashboard["templating"]["list"]}
    queries = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]

    used = {name for query in queries for name in re.findall(r"\$(\w+)", query)}
    assert used <= defined == _BUILT_IN
    assert not [query for query in queries if "@" in query]


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_rates_use_the_window_that_a_reader_chooses(dashboard: dict[str, Any]) -> None:
    queries = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]

    windows = {window for query in queries for window in re.findall(r"\[([^]]+)\]", query)}
    assert windows <= {"$window", "1h"}


def test_requests_can_be_found_from_the_heat_map_of_acceptance() -> None:
    (heat,) = [p for p in panels(DASHBOARDS["acceptance.json"]) if p["type"] == "heatmap"]

    (target,) = heat["targets"]
    assert target["exemplar"]
    assert "gateway_request_acceptance_ratio_bucket" in target["expr"]
