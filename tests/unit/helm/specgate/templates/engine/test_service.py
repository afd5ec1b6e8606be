from tests.unit.helm.chart import CI_FILES, needs_helm, render

pytestmark = needs_helm

NAME = "sg-specgate-engine"


def test_it_is_headless_and_names_ready_pods_only() -> None:
    rendered = render()

    spec = rendered.one("Service", NAME)["spec"]
    labels = rendered.template("engine")["metadata"]["labels"]
    assert spec["clusterIP"] == "None"
    assert "publishNotReadyAddresses" not in spec
    assert spec["selector"].items() <= labels.items()
    assert spec["ports"] == [{"name": "http", "port": 8001, "targetPort": "http"}]


def test_of_a_group_it_names_the_leader_only() -> None:
    (file,) = [file for file in CI_FILES if file.stem.startswith("multi-node")]

    spec = render(file).one("Service", NAME)["spec"]

    assert spec["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"
