"""Every query of every dashboard and rule returns data from a running service."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.monitoring.live import Live, live
from tests.e2e.monitoring.prometheus import NAMESPACE, Series
from tests.e2e.monitoring.queries import Asked, all_queries, dashboards, filled
from tests.e2e.monitoring.traffic import everything_once

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

QUERIES = all_queries()
_FALLBACKS_FIRE = 'ALERTS{alertname="SpecgateSpeculationFallbacks", alertstate="firing"}'


@dataclass(frozen=True)
class Watched:
    """A service that has had all kinds of traffic, and then lost its worker.

    Attributes:
        began: Unix time before the traffic.
        busy: Unix time at its end, while the worker was still running.
        lost: Unix time when Prometheus had recorded the loss.
    """

    live: Live
    began: float
    busy: float
    lost: float

    def ask(self, promql: str) -> list[Series]:
        """Return a query's results at both times; the worker's own series exist at the first."""
        ask = self.live.prometheus.query
        return [*ask(promql, at=self.busy), *ask(promql, at=self.lost)]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with live(tmp_path_factory.mktemp("live")) as running:
        began = time.time()
        everything_once(running.clients)
        running.prometheus.wait_for(_FALLBACKS_FIRE)
        busy = time.time()
        running.clients.lose_the_worker()
        running.prometheus.wait_for("sum(gateway_worker_restarts_total) > 0")
        running.prometheus.wait_for('gateway_stream_terminations_total{outcome="error_event"}')
        yield Watched(running, began, busy, time.time())


@pytest.mark.parametrize("asked", QUERIES, ids=lambda asked: asked.where)
def test_query_gives_numbers(watched: Watched, asked: Asked) -> None:
    found = watched.ask(asked.promql)

    assert any(series.has_numbers for series in found), asked.promql


@pytest.mark.parametrize("asked", QUERIES, ids=lambda asked: asked.where)
def test_every_series_that_a_query_reads_exists(watched: Watched, asked: Asked) -> None:
    """An `or` with a misspelt metric would pass the test above."""
    missing = [selector for selector in asked.selectors if not watched.ask(selector)]

    assert asked.selectors
    assert missing == []


@pytest.mark.parametrize(
    "asked", [asked for asked in QUERIES if asked.named], ids=lambda asked: asked.where
)
def test_series_have_the_labels_that_name_them(watched: Watched, asked: Asked) -> None:
    found = watched.ask(asked.promql)

    assert all(asked.named <= series.labels.keys() for series in found)


def test_selectors_are_found_in_a_query() -> None:
    query = 'sum by (source) (rate(engine_a_total{x="{"}[2m])) / on (x) vllm:b_sum or n:c:d > 2'

    assert Asked("", query).selectors == ['engine_a_total{x="{"}', "vllm:b_sum"]
    assert Asked("", "namespace_model:e_burn:rate5m").selectors == ["namespace_model:e_burn:rate5m"]


def test_prometheus_evaluates_every_rule(watched: Watched) -> None:
    broken = {
        rule["name"]: rule for rule in watched.live.prometheus.rules() if rule["health"] != "ok"
    }

    assert broken == {}


def test_failed_speculation_fires_its_alert(watched: Watched) -> None:
    (alert,) = watched.live.prometheus.query(_FALLBACKS_FIRE, at=watched.busy)

    assert alert.labels["namespace"] == NAMESPACE
    assert alert.labels["reason"] == "InjectedError"


def test_exemplars_of_the_acceptance_heat_map_name_requests(watched: Watched) -> None:
    (panel,) = [p for p in dashboards()["acceptance"]["panels"] if p["type"] == "heatmap"]
    (target,) = panel["targets"]

    found = watched.live.prometheus.exemplars(
        filled(target["expr"]), first=watched.began, last=watched.busy
    )

    named = {exemplar["labels"]["request_id"] for exemplar in found}
    assert target["exemplar"]
    assert named & watched.live.clients.request_ids
