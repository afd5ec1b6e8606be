"""Source of the fields: LeaderWorkerSet's API, leaderworkerset.x-k8s.io/v1."""

import kubernetes_validate

from tests.unit.helm.chart import CI_FILES, Object, needs_helm, render

pytestmark = needs_helm

(FILE,) = [file for file in CI_FILES if file.stem.startswith("multi-node")]


def group() -> Object:
    found: Object = render(FILE).one("LeaderWorkerSet", "sg-specgate-group")["spec"]
    return found


def container(role: str) -> Object:
    (found,) = group()["leaderWorkerTemplate"][f"{role}Template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def test_it_stands_instead_of_the_stateful_set() -> None:
    assert render(FILE).of("StatefulSet") == []
    assert render().of("LeaderWorkerSet") == []


def test_its_own_service_is_not_taken_for_the_one_of_the_gateways() -> None:
    """Source: LeaderWorkerSet's controller makes a headless Service of its own name."""
    names = {found["metadata"]["name"] for found in render(FILE).of("Service")}

    assert names == {"sg-specgate-gateway", "sg-specgate-engine"}


def test_a_group_lives_and_dies_together() -> None:
    spec = group()

    assert spec.keys() == {"replicas", "startupPolicy", "leaderWorkerTemplate"}
    assert spec["leaderWorkerTemplate"]["size"] == 2
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"


def test_both_pods_are_valid() -> None:
    for role in ("leader", "worker"):
        template = group()["leaderWorkerTemplate"][f"{role}Template"]
        found = {"apiVersion": "v1", "kind": "PodTemplate", "template": template}
        kubernetes_validate.validate(found, "1.34", strict=True)


def test_ray_joins_the_followers_to_the_leader() -> None:
    leader, follower = container("leader")["command"], container("worker")["command"]

    assert "ray start --head --port=6379" in leader[-1]
    assert "exec python -m engine --config /etc/specgate/settings/settings.yaml" in leader[-1]
    assert 'ray start --address="$LWS_LEADER_ADDRESS:6379"' in follower[-1]
    assert "--block" in follower[-1]
    assert render(FILE).settings()["engine"]["vllm"]["distributed_executor_backend"] == "ray"


def test_only_the_leader_serves_is_probed_and_drains() -> None:
    of_leader = {"ports", "lifecycle", "startupProbe", "livenessProbe", "readinessProbe"}

    assert of_leader <= container("leader").keys()
    assert not of_leader & container("worker").keys()


def test_every_pod_tells_its_address_and_has_its_gpus() -> None:
    for role in ("leader", "worker"):
        names = {each["name"]: each for each in container(role)["env"]}
        assert names["VLLM_HOST_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
        assert container(role)["resources"]["limits"]["nvidia.com/gpu"] == "8"


def test_what_a_group_caches_ends_with_it() -> None:
    for role in ("leader", "worker"):
        volumes = group()["leaderWorkerTemplate"][f"{role}Template"]["spec"]["volumes"]
        (cache,) = [volume for volume in volumes if volume["name"] == "cache"]
        claim = cache["ephemeral"]["volumeClaimTemplate"]["spec"]
        assert claim["resources"]["requests"]["storage"] == "2Ti"
