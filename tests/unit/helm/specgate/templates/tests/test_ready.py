from tests.unit.helm.chart import needs_helm, render

pytestmark = needs_helm


def test_helm_test_asks_the_service_for_a_worker() -> None:
    rendered = render(gateway={"service": {"port": 8080}})

    pod = rendered.one("Pod", "sg-specgate-test-ready")
    (container,) = pod["spec"]["containers"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert container["image"] == rendered.container("gateway")["image"]
    assert container["command"][-1] == "http://sg-specgate-gateway.llm.svc:8080/health/ready"
    compile(container["command"][2], "ask", "exec")
