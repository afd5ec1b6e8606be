"""Source of the fields: the Prometheus operator's API, monitoring.coreos.com/v1."""

from tests.unit.helm.chart import CI_FILES, needs_helm, render

pytestmark = needs_helm

ON = {"scraping": {"enabled": True}}


def test_it_finds_the_engines_pods_and_their_port() -> None:
    rendered = render(monitoring=ON)

    spec = rendered.one("PodMonitor", "sg-specgate-engine")["spec"]
    template = rendered.template("engine")
    ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    (endpoint,) = spec["podMetricsEndpoints"]
    assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert (endpoint["port"], endpoint["path"]) == ("http", "/metrics")
    assert endpoint["port"] in ports


def test_remote_workers_are_not_ours_to_scrape() -> None:
    (file,) = [file for file in CI_FILES if file.stem.startswith("remote-workers")]

    assert render(file, monitoring=ON).of("PodMonitor") == []
