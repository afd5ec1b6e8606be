from pathlib import Path

import pytest

from gateway.settings import DrainSettings
from tests.unit.helm.chart import CI_FILES, needs_helm, render

pytestmark = needs_helm


def test_it_serves_the_settings_with_the_images_own_command() -> None:
    container = render().container("gateway")

    assert "command" not in container
    assert container["args"] == ["serve", "--config", "/etc/specgate/settings/settings.yaml"]
    assert container["image"] == "specgate:gateway"
    assert container["ports"] == [{"name": "http", "containerPort": 8000}]


def test_a_digest_wins_over_a_tag() -> None:
    digest = "sha256:" + "a" * 64

    container = render(gateway={"image": {"digest": digest}}).container("gateway")

    assert container["image"] == f"specgate@{digest}"


def test_probes_ask_what_they_say() -> None:
    container = render().container("gateway")

    paths = {
        name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")
    }
    assert paths == {
        "startup": {"path": "/health/live", "port": "http"},
        "liveness": {"path": "/health/live", "port": "http"},
        "readiness": {"path": "/health/ready", "port": "http"},
    }


@pytest.mark.parametrize(
    ("version", "hook"),
    [("1.29.3", {"exec": {"command": ["sleep", "10"]}}), ("1.30.0", {"sleep": {"seconds": 10}})],
    ids=["older", "newer"],
)
def test_the_first_phase_of_a_drain_only_waits(version: str, hook: object) -> None:
    container = render(version=version).container("gateway")

    assert container["lifecycle"] == {"preStop": hook}


@pytest.mark.parametrize("file", CI_FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize(
    "drain", [{}, {"accept_seconds": 7.5, "finish_seconds": 600}], ids=["", "long"]
)
def test_the_grace_period_is_longer_than_the_drain(file: Path, drain: dict[str, float]) -> None:
    rendered = render(file, settings={"gateway": {"drain": drain}})

    section = rendered.settings()["gateway"].get("drain", {})
    settings = DrainSettings(**section)
    pod = rendered.pod("gateway")
    hook = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    drained = hook + settings.accept_seconds + settings.finish_seconds
    assert drained + 20 < pod["terminationGracePeriodSeconds"] <= drained + 32


def test_replicas_are_the_autoscalers_where_there_is_one() -> None:
    fixed = render(gateway={"replicas": 3}).one("Deployment", "sg-specgate-gateway")
    scaled = render(gateway={"autoscaling": {"enabled": True}}).one(
        "Deployment", "sg-specgate-gateway"
    )

    assert fixed["spec"]["replicas"] == 3
    assert "replicas" not in scaled["spec"]


def test_an_update_never_has_fewer_pods_than_before() -> None:
    strategy = render().one("Deployment", "sg-specgate-gateway")["spec"]["strategy"]

    assert strategy["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": 0}


def test_keys_are_mounted_as_a_folder_so_that_changes_arrive() -> None:
    rendered = render(keys={"existingSecret": "mine", "secretKey": "k"})

    (keys,) = [each for each in rendered.pod("gateway")["volumes"] if each["name"] == "keys"]
    mounts = rendered.container("gateway")["volumeMounts"]
    assert keys["secret"] == {
        "secretName": "mine",
        "defaultMode": 0o440,
        "items": [{"key": "k", "path": "keys.jsonl"}],
    }
    assert not any("subPath" in mount for mount in mounts)


def test_without_secrets_none_is_mounted() -> None:
    rendered = render(
        keys={"existingSecret": ""}, settings={"gateway": {"allow_without_keys": True}}
    )

    names = [volume["name"] for volume in rendered.pod("gateway")["volumes"]]
    assert names == ["settings", "tmp"]


def test_pods_are_placed_as_the_values_say() -> None:
    affinity: dict[str, object] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}
    }
    pod = render(
        imagePullSecrets=[{"name": "pull"}],
        gateway={
            "nodeSelector": {"pool": "cpu"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "affinity": affinity,
            "priorityClassName": "high",
            "topologySpread": {"hosts": "DoNotSchedule", "zones": ""},
        },
    ).pod("gateway")

    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["nodeSelector"] == {"pool": "cpu"}
    assert pod["tolerations"] == [{"key": "a", "operator": "Exists"}]
    assert pod["affinity"] == affinity
    assert pod["priorityClassName"] == "high"
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["whenUnsatisfiable"] == "DoNotSchedule"


def test_pods_carry_what_the_values_add() -> None:
    rendered = render(
        gateway={
            "podLabels": {"a": "1"},
            "podAnnotations": {"b": "2"},
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
            "resources": {"requests": {"cpu": 2, "ephemeralStorage": "1Gi"}},
        }
    )

    metadata = rendered.template("gateway")["metadata"]
    container = rendered.container("gateway")
    assert metadata["labels"]["a"] == "1"
    assert metadata["annotations"]["b"] == "2"
    assert container["env"] == [{"name": "HTTPS_PROXY", "value": "http://proxy"}]
    assert container["resources"]["requests"] == {
        "cpu": "2",
        "memory": "512Mi",
        "ephemeral-storage": "1Gi",
    }
