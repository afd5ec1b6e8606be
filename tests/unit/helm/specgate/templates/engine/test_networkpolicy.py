from tests.unit.helm.chart import CI_FILES, needs_helm, render

pytestmark = needs_helm

NAME = "sg-specgate-engine"
PEERS = {"app.kubernetes.io/name": "specgate", "app.kubernetes.io/instance": "sg"}


def test_workers_take_connections_from_the_gateway_and_prometheus_only() -> None:
    rendered = render()
    policy = rendered.one("NetworkPolicy", NAME)["spec"]

    (rule,) = policy["ingress"]
    gateway, prometheus = rule["from"]
    assert policy["podSelector"]["matchLabels"] == {
        **PEERS,
        "app.kubernetes.io/component": "engine",
    }
    assert "Ingress" in policy["policyTypes"]
    assert rule["ports"] == [{"port": 8001, "protocol": "TCP"}]
    # One peer of two selectors: pods of that name in that namespace, not either.
    assert prometheus.keys() == {"namespaceSelector", "podSelector"}
    assert gateway == {
        "podSelector": {"matchLabels": {**PEERS, "app.kubernetes.io/component": "gateway"}}
    }


def test_the_policy_selects_the_pods_that_there_are() -> None:
    rendered = render()

    labels = rendered.template("engine")["metadata"]["labels"]
    of_gateway = rendered.template("gateway")["metadata"]["labels"]
    policy = rendered.one("NetworkPolicy", NAME)["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert (
        policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"].items() <= of_gateway.items()
    )


def test_nobody_scrapes_where_no_prometheus_is_named() -> None:
    policy = render(networkPolicy={"prometheus": []}).one("NetworkPolicy", NAME)["spec"]

    assert len(policy["ingress"][0]["from"]) == 1


def test_pods_of_a_group_reach_each_other() -> None:
    (file,) = [file for file in CI_FILES if file.stem.startswith("multi-node")]

    policy = render(file).one("NetworkPolicy", NAME)["spec"]

    _, group = policy["ingress"]
    assert "ports" not in group
    assert group["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "engine"


def test_egress_can_be_bound() -> None:
    (file,) = [file for file in CI_FILES if file.stem.startswith("tensor-parallel")]

    policy = render(file).one("NetworkPolicy", NAME)["spec"]

    dns, group, hubs = policy["egress"]
    assert {port["port"] for port in dns["ports"]} == {53}
    assert "ports" not in group
    assert hubs == {"ports": [{"port": 443, "protocol": "TCP"}]}
