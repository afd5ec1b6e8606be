"""Source of the fields: the Prometheus operator's API, monitoring.coreos.com/v1."""

import re
from pathlib import Path
from typing import Any

import yaml

from monitoring.rules import Thresholds
from tests.unit.helm.chart import CHART, needs_helm, render
from tests.unit.monitoring.rules.promtool import promtool

pytestmark = needs_helm

OTHERS = {
    "acceptanceDrop": 0.25,
    "workerRestarts": 7,
    "burnHour": 20.5,
    "requestsKept": 0.995,
    "firstTokenSeconds": "0.5",
    "tokenGapSeconds": "0.05",
}


def groups(**rules: Any) -> dict[str, Any]:
    """What each PrometheusRule says, by its name."""
    rendered = render(monitoring={"rules": {"enabled": True, **rules}})
    return {each["metadata"]["name"]: each["spec"] for each in rendered.of("PrometheusRule")}


def alerts(**rules: Any) -> dict[str, Any]:
    """Every alert by its name."""
    (group,) = groups(**rules)["sg-specgate-alerts"]["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_without_values_of_ones_own_they_are_the_plain_files() -> None:
    rendered = render(monitoring={"rules": {"enabled": True, "labels": {"release": "p"}}})

    files = {
        file.stem: yaml.safe_load(file.read_text("utf-8")) for file in CHART.glob("rules/*.yaml")
    }
    found = {each["metadata"]["name"]: each["spec"] for each in rendered.of("PrometheusRule")}
    assert found == {f"sg-specgate-{name}": rules for name, rules in files.items()}
    assert all(
        each["metadata"]["labels"]["release"] == "p" for each in rendered.of("PrometheusRule")
    )


def test_thresholds_are_those_of_the_values() -> None:
    chosen = alerts(thresholds=OTHERS)

    assert "ratio_rate1d) < 0.25\n" in chosen["SpecgateAcceptanceCollapse"]["expr"]
    assert chosen["SpecgateWorkerRestarts"]["expr"].endswith(" > 7")
    assert "rate1h) > 20.5\n" in chosen["SpecgateTtftBudgetBurnsFast"]["expr"]
    assert "within 0.5 s." in chosen["SpecgateTtftBudgetBurnsSlowly"]["annotations"]["description"]


def test_promises_are_those_of_the_values() -> None:
    (group,) = groups(thresholds=OTHERS)["sg-specgate-recordings"]["groups"]
    recorded = {rule["record"]: rule["expr"] for rule in group["rules"]}

    assert recorded["namespace:gateway_failures_burn:rate5m"].endswith("/ (1 - 0.995)")
    assert 'le="0.5"' in recorded["namespace_model:gateway_ttft_burn:rate5m"]
    assert 'le="0.05"' in recorded["namespace:gateway_token_gap_burn:rate5m"]


def test_prometheus_accepts_what_is_made_of_other_values(tmp_path: Path) -> None:
    numbers = {
        name: 0.00001
        for name, field in Thresholds.model_fields.items()
        if isinstance(field.default, float | int)
    }
    for name, spec in groups(thresholds=numbers).items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")

    done = promtool("check", "rules", *map(str, sorted(tmp_path.iterdir())))

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(numbers) > 15


def test_an_alert_leads_to_the_runbook_where_people_find_it() -> None:
    url = "https://wiki.example.com/llm/runbook.md"
    links = [rule["annotations"]["runbook_url"] for rule in alerts(runbookUrl=url).values()]

    assert len(links) > 15
    assert all(re.fullmatch(re.escape(url) + r"#[\w-]+", link) for link in links)


def test_there_is_none_unless_it_is_asked_for() -> None:
    assert render().of("PrometheusRule") == []
