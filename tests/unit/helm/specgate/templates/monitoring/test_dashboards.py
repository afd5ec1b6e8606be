import json

from tests.unit.helm.chart import CHART, needs_helm, render

pytestmark = needs_helm


def test_every_dashboard_becomes_a_config_map_as_it_is() -> None:
    rendered = render(
        monitoring={"dashboards": {"enabled": True, "annotations": {"grafana_folder": "LLM"}}}
    )

    found = {
        name: (each, json.loads(text))
        for each in rendered.of("ConfigMap")
        if each["metadata"]["labels"].get("grafana_dashboard") == "1"
        for name, text in each["data"].items()
    }
    files = {
        file.name: json.loads(file.read_text("utf-8")) for file in CHART.glob("dashboards/*.json")
    }
    assert {name: dashboard for name, (_, dashboard) in found.items()} == files
    for each, _ in found.values():
        assert each["metadata"]["annotations"] == {"grafana_folder": "LLM"}
        assert len(json.dumps(each)) < 2**20  # Source: Kubernetes' limit of a ConfigMap


def test_there_is_none_unless_it_is_asked_for() -> None:
    names = {found["metadata"]["name"] for found in render().of("ConfigMap")}

    assert names == {"sg-specgate-settings", "sg-specgate-engine-scripts"}
