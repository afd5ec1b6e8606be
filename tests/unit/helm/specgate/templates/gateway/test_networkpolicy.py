from tests.unit.helm.chart import needs_helm, render

pytestmark = needs_helm

NAME = "sg-specgate-gateway"
AGENTS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agents"}}}


def test_all_may_call_the_gateway_and_nothing_but_its_port() -> None:
    policy = render().one("NetworkPolicy", NAME)["spec"]

    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"port": 8000, "protocol": "TCP"}]}]


def test_callers_may_be_named_and_prometheus_stays_one() -> None:
    policy = render(gateway={"networkFrom": [AGENTS]}).one("NetworkPolicy", NAME)["spec"]

    (rule,) = policy["ingress"]
    assert rule["from"][0] == AGENTS
    assert rule["from"][1]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}


def test_helm_test_gets_in_wherever_callers_are_named() -> None:
    rendered = render(gateway={"networkFrom": [AGENTS]})

    (rule,) = rendered.one("NetworkPolicy", NAME)["spec"]["ingress"]
    labels = rendered.one("Pod", "sg-specgate-test-ready")["metadata"]["labels"]
    peer = rule["from"][-1]["podSelector"]["matchLabels"]
    assert peer["app.kubernetes.io/component"] == "test"
    assert peer.items() <= labels.items()


def test_egress_can_be_bound_to_dns_and_workers() -> None:
    policy = render(networkPolicy={"restrictEgress": True}).one("NetworkPolicy", NAME)["spec"]

    dns, workers = policy["egress"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert {port["port"] for port in dns["ports"]} == {53}
    assert workers["ports"] == [{"port": 8001, "protocol": "TCP"}]
    (peer,) = workers["to"]
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "engine"


def test_policies_can_be_left_out() -> None:
    assert render(networkPolicy={"enabled": False}).of("NetworkPolicy") == []
