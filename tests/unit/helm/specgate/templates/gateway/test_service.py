from tests.unit.helm.chart import needs_helm, render

pytestmark = needs_helm


def test_it_leads_to_the_port_of_the_gateways_pods() -> None:
    rendered = render(gateway={"service": {"port": 8080, "annotations": {"a": "1"}}})

    service = rendered.one("Service", "sg-specgate-gateway")
    assert service["metadata"]["annotations"] == {"a": "1"}
    assert service["spec"]["type"] == "ClusterIP"
    assert service["spec"]["ports"] == [{"name": "http", "port": 8080, "targetPort": "http"}]
    labels = rendered.template("gateway")["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert (
        not service["spec"]["selector"].items()
        <= rendered.template("engine")["metadata"]["labels"].items()
    )
