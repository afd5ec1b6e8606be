"""Source of the fields: the Prometheus operator's API, monitoring.coreos.com/v1."""

from tests.unit.helm.chart import needs_helm, render

pytestmark = needs_helm


def test_there_is_none_unless_it_is_asked_for() -> None:
    assert render().of("ServiceMonitor") == []


def test_it_finds_the_gateways_service_and_its_port() -> None:
    scraping = {"enabled": True, "interval": "30s", "labels": {"release": "prometheus"}}
    rendered = render(monitoring={"scraping": scraping})

    monitor = rendered.one("ServiceMonitor", "sg-specgate-gateway")
    labels = monitor["spec"]["selector"]["matchLabels"]
    found = [
        service
        for service in rendered.of("Service")
        if labels.items() <= service["metadata"]["labels"].items()
    ]
    assert [service["metadata"]["name"] for service in found] == ["sg-specgate-gateway"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint == {"port": "http", "path": "/metrics", "interval": "30s"}
    assert endpoint["port"] in {port["name"] for port in found[0]["spec"]["ports"]}
