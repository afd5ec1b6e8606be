"""The chart as a whole: linted, rendered for each ci file, each manifest validated.

Custom resources have no schema here; the tests of their templates look at their structure.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.unit.helm.chart import CHART, CI_FILES, VERSIONS, Object, needs_helm, render, run_helm

pytestmark = needs_helm

CUSTOM = {"LeaderWorkerSet", "PodMonitor", "PrometheusRule", "ScaledObject", "ServiceMonitor"}
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
every_file = pytest.mark.parametrize("file", CI_FILES, ids=lambda file: file.stem)


def strings(node: Any) -> Iterator[str]:
    """Every string in a manifest, those of ConfigMaps aside."""
    match node:
        case str():
            yield node
        case dict():
            for name, value in node.items():
                if name != "data":
                    yield from strings(value)
        case list():
            for value in node:
                yield from strings(value)


def pod_specs(node: Any) -> Iterator[Object]:
    """Every pod spec in a manifest, wherever it stands."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for value in node.values():
            yield from pod_specs(value)


def test_the_promised_ci_files_are_there() -> None:
    assert [file.stem.removesuffix("-values") for file in CI_FILES] == [
        "cpu-demo",
        "multi-node",
        "one-gpu",
        "remote-workers",
        "tensor-parallel",
    ]


@pytest.mark.parametrize(
    "arguments",
    [[], *(["--values", str(file)] for file in CI_FILES)],
    ids=["defaults", *map(str, range(len(CI_FILES)))],
)
def test_helm_lint_finds_nothing(arguments: list[str]) -> None:
    done = run_helm(["lint", "--strict", str(CHART), *arguments])

    assert done.returncode == 0, done.stdout + done.stderr


@every_file
@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid(file: Path, version: str) -> None:
    custom = set()
    for found in render(file, version=version).objects:
        if found["kind"] in CUSTOM:
            custom.add(found["kind"])
        else:
            kubernetes_validate.validate(found, version.rpartition(".")[0], strict=True)

    assert custom <= CUSTOM


def test_a_wrong_manifest_would_be_found() -> None:
    deployment = render().one("Deployment", "sg-specgate-gateway")
    deployment["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, "1.34", strict=True)


def test_every_custom_resource_is_in_some_ci_file() -> None:
    kinds = {found["kind"] for file in CI_FILES for found in render(file).objects}

    assert kinds >= CUSTOM


def test_an_older_kubernetes_is_refused() -> None:
    done = run_helm(["template", "sg", str(CHART), "--kube-version", "1.28.0"])

    assert done.returncode != 0
    assert "incompatible with Kubernetes v1.28.0" in done.stderr


@every_file
def test_names_namespaces_and_labels_are_everywhere(file: Path) -> None:
    objects = render(file, commonLabels={"team": "llm"}).objects

    names = [(found["kind"], found["metadata"]["name"]) for found in objects]
    assert len(names) == len(set(names))
    for found in objects:
        metadata = found["metadata"]
        assert metadata["namespace"] == "llm"
        assert metadata["name"].startswith("sg-specgate")
        assert metadata["labels"]["app.kubernetes.io/name"] == "specgate"
        assert metadata["labels"]["app.kubernetes.io/instance"] == "sg"
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        assert metadata["labels"]["team"] == "llm"


@every_file
def test_selectors_never_change_with_the_chart(file: Path) -> None:
    for found in render(file).objects:
        selector = found.get("spec", {}).get("selector", {})
        labels = selector.get("matchLabels", selector)
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & labels.keys()


@every_file
def test_nothing_that_go_prints_for_nothing_is_left(file: Path) -> None:
    left = [
        text
        for found in render(file).objects
        for text in strings(found)
        if "<nil>" in text or "<no value>" in text or "%!" in text
    ]

    assert left == []


@every_file
def test_every_pod_is_restricted(file: Path) -> None:
    """Source: Kubernetes, Pod Security Standards, `restricted`."""
    specs = [spec for found in render(file).objects for spec in pod_specs(found)]

    assert specs
    for spec in specs:
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 10001
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        for volume in spec.get("volumes", []):
            assert volume.keys() - {"name"} <= {
                "configMap", "emptyDir", "ephemeral", "persistentVolumeClaim", "secret",
            }  # fmt: skip
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            resources = container["resources"]
            assert {"cpu", "memory"} <= resources["requests"].keys()
            assert "memory" in resources["limits"]
            amounts = [*resources["requests"].values(), *resources["limits"].values()]
            assert all(QUANTITY.fullmatch(amount) for amount in amounts)


@every_file
def test_every_mount_has_its_volume_and_every_secret_is_a_reference(file: Path) -> None:
    rendered = render(file)

    assert rendered.of("Secret") == []
    for found in rendered.objects:
        claims = found.get("spec", {}).get("volumeClaimTemplates", [])
        for spec in pod_specs(found):
            volumes = {volume["name"] for volume in spec.get("volumes", [])}
            volumes |= {claim["metadata"]["name"] for claim in claims}
            mounts = [
                mount["name"]
                for container in spec["containers"]
                for mount in container.get("volumeMounts", [])
            ]
            assert set(mounts) == volumes
            assert len(mounts) == len(set(mounts))


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ([], False),
        (["monitoring.rules.enabled=true"], True),
        (["monitoring.rules.enabled=true", "monitoring.rules.runbookUrl=https://a/b.md"], False),
    ],
    ids=["no alerts", "nowhere", "published"],
)
def test_notes_say_so_when_alerts_lead_nowhere(chosen: list[str], said: bool) -> None:
    values = [part for each in chosen for part in ("--set", each)]
    done = run_helm(["install", "sg", str(CHART), "--dry-run=client", *values])

    notes = done.stdout.partition("NOTES:")[2]
    assert "specgate keys create" in notes
    assert ("set monitoring.rules.runbookUrl" in notes) is said


def test_a_platform_may_choose_the_user() -> None:
    context = render(security={"user": None}).pod("gateway")["securityContext"]

    assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        ("sg", {}, "sg-specgate-gateway"),
        ("my-specgate", {}, "my-specgate-gateway"),
        ("sg", {"nameOverride": "llm"}, "sg-llm-gateway"),
        ("sg", {"fullnameOverride": "llm"}, "llm-gateway"),
        ("r" * 53, {}, "r" * 40 + "-gateway"),
    ],
    ids=["both", "contained", "name", "full", "long"],
)
def test_names(release: str, values: dict[str, str], name: str) -> None:
    chosen = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    done = run_helm(["template", release, str(CHART), *chosen])

    assert f"\n  name: {name}\n" in done.stdout


@every_file
def test_the_longest_name_leaves_room_for_what_controllers_add(file: Path) -> None:
    """Source: a pod's `controller-revision-hash` is its StatefulSet's name and 11 characters."""
    done = run_helm(["template", "r" * 53, str(CHART), "--values", str(file)])

    for found in yaml.safe_load_all(done.stdout):
        room = {"StatefulSet": 52, "LeaderWorkerSet": 52 - len("-999")}.get(found["kind"], 63)
        assert len(found["metadata"]["name"]) <= room
