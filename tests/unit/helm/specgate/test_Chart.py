"""The chart rendered with each values file: as its golden file says, valid, and consistent."""

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from engine.config import EngineSettings
from engine.config import load_settings as load_engine
from gateway.protocol import ENDPOINTS
from gateway.settings import GatewaySettings
from gateway.settings import load_settings as load_gateway
from monitoring.rules import rule_templates
from tests.unit.helm.chart import (
    CHART,
    FILES,
    GOLDEN,
    ROOT,
    STANDARD_LABELS,
    VERSIONS,
    Object,
    Rendered,
    golden,
    needs_helm,
    render_file,
)

pytestmark = needs_helm

CUSTOM = {
    "InferencePool",
    "LeaderWorkerSet",
    "PodMonitor",
    "PrometheusRule",
    "ScaledObject",
    "ServiceMonitor",
}
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
PART_OF = "app.kubernetes.io/"
WITH_ALL_KINDS = ("inference-pool", "multi-node", "one-gpu", "openshift")
"""Files that together have objects of every kind; validated for all releases of Kubernetes."""


@pytest.fixture(params=FILES)
def rendered(request: pytest.FixtureRequest) -> Rendered:
    return render_file(request.param)


@pytest.fixture
def loaded(rendered: Rendered, tmp_path: Path) -> tuple[GatewaySettings, EngineSettings]:
    return load(rendered, tmp_path)


def load(rendered: Rendered, folder: Path) -> tuple[GatewaySettings, EngineSettings]:
    profile = folder / "settings.yaml"
    profile.write_text(rendered.settings_text, encoding="utf-8")
    return load_gateway(profile, environ={}), load_engine(profile, environ={})


def walk(node: Any) -> Iterator[Any]:
    """Every node of a manifest."""
    yield node
    if isinstance(node, dict | list):
        for below in node.values() if isinstance(node, dict) else node:
            yield from walk(below)


def containers(rendered: Rendered) -> list[tuple[Object, Object]]:
    """Every pod spec with each of its containers."""
    return [(pod["spec"], each) for pod in rendered.pods for each in pod["spec"]["containers"]]


def has_engine(rendered: Rendered) -> bool:
    return bool(rendered.values["engine"]["enabled"])


@pytest.mark.parametrize("name", FILES)
def test_manifests_are_those_of_the_golden_file(name: str) -> None:
    """`python -m tests.unit.helm.write_golden` writes the files again."""
    assert golden(render_file(name)) == (GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")


def test_every_golden_file_has_a_values_file() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == FILES.keys()


def test_every_template_is_rendered_for_some_file() -> None:
    kinds, of_some = (
        {found["kind"] for name in names for found in render_file(name).objects}
        for names in (FILES, WITH_ALL_KINDS)
    )

    assert kinds == of_some
    assert kinds >= CUSTOM | {"HorizontalPodAutoscaler", "Ingress", "StatefulSet"}


@pytest.mark.parametrize(
    ("name", "version"),
    [*((name, "1.34.0") for name in FILES), *((n, v) for n in WITH_ALL_KINDS for v in VERSIONS)],
)
def test_every_manifest_is_valid(name: str, version: str) -> None:
    """Against Kubernetes' schemas; custom resources have none, the pods in them do."""
    rendered = render_file(name, version)
    standard = [found for found in rendered.objects if found["kind"] not in CUSTOM]
    pods = [
        {"apiVersion": "v1", "kind": "PodTemplate", "template": pod}
        for pod in rendered.pods
        if "kind" not in pod
    ]

    for found in [*standard, *pods]:
        kubernetes_validate.validate(found, version.rpartition(".")[0], strict=True)


def test_an_invalid_manifest_would_be_found() -> None:
    deployment = copy.deepcopy(render_file("defaults").of("Deployment")[0])
    deployment["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, "1.34", strict=True)


def test_labels(rendered: Rendered) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    expected = {
        f"{PART_OF}name": "specgate",
        f"{PART_OF}instance": "sg",
        f"{PART_OF}part-of": "specgate",
        f"{PART_OF}managed-by": "Helm",
        f"{PART_OF}version": chart["appVersion"],
        "helm.sh/chart": f"specgate-{chart['version']}",
        **rendered.values["commonLabels"],
    }
    assert expected.keys() >= STANDARD_LABELS
    names = [(found["kind"], found["metadata"]["name"]) for found in rendered.objects]

    assert len(names) == len(set(names))
    for found in rendered.objects:
        metadata = found["metadata"]
        assert metadata["namespace"] == "llm"
        assert expected.items() <= metadata["labels"].items()


def test_selectors_find_the_pods_of_one_component(rendered: Rendered) -> None:
    selectors = []
    for each in rendered.objects:
        spec = each.get("spec", {})
        for selector in (spec.get("selector"), spec.get("podSelector")):
            if selector and each["kind"] != "ServiceMonitor":  # selects a Service
                component = each["metadata"]["labels"][f"{PART_OF}component"]
                selectors.append((component, selector.get("matchLabels", selector)))
    for pod in rendered.pods:
        component = pod["metadata"]["labels"][f"{PART_OF}component"]
        for spread in pod["spec"].get("topologySpreadConstraints", []):
            selectors.append((component, spread["labelSelector"]["matchLabels"]))

    assert len(selectors) > 3
    for component, selector in selectors:
        # Selectors of a workload can never change; the chart's version does.
        assert not {"helm.sh/chart", f"{PART_OF}version"} & selector.keys()
        labels = {"leaderworkerset.sigs.k8s.io/worker-index": "0"}  # the controller's own
        selected = [
            pod["metadata"]["labels"][f"{PART_OF}component"]
            for pod in rendered.pods
            if selector.items() <= (pod["metadata"]["labels"] | labels).items()
        ]
        assert selected
        assert set(selected) == {component}


def test_peers_in_network_policies_exist(rendered: Rendered) -> None:
    for policy in rendered.of("NetworkPolicy"):
        for node in walk(policy["spec"]):
            labels = node.get("matchLabels", {}) if isinstance(node, dict) else {}
            if f"{PART_OF}instance" in labels:
                assert any(
                    labels.items() <= pod["metadata"]["labels"].items() for pod in rendered.pods
                )


def test_workers_accept_connections_from_the_gateway_and_prometheus_only(
    rendered: Rendered,
) -> None:
    if has_engine(rendered):
        spec = rendered.component("NetworkPolicy", "engine")["spec"]
        clients, *group = spec["ingress"]

        gateway, *others = clients["from"]
        assert "Ingress" in spec["policyTypes"]
        assert clients["ports"] == [{"port": 8001, "protocol": "TCP"}]
        assert gateway["podSelector"]["matchLabels"][f"{PART_OF}component"] == "gateway"
        prometheus = rendered.values["networkPolicy"]["prometheus"]
        assert others == [*prometheus, *rendered.values["inferencePool"]["networkFrom"]]
        # One peer with two selectors: pods of that name in that namespace.
        assert all(each.keys() == {"namespaceSelector", "podSelector"} for each in prometheus)
        assert len(group) == int(rendered.values["engine"]["multiNode"]["enabled"])


def test_references_of_pods_resolve(rendered: Rendered) -> None:
    accounts = {found["metadata"]["name"] for found in rendered.of("ServiceAccount")}
    for component in ("gateway", "engine"):
        chosen = rendered.values[component]["serviceAccount"]
        if not chosen["create"]:
            accounts.add(chosen["name"] or "default")
    for pod in rendered.pods:
        assert pod["spec"].get("serviceAccountName", "default") in accounts | {"default"}
        for volume in pod["spec"].get("volumes", []):
            if "configMap" in volume:
                assert rendered.one("ConfigMap", volume["configMap"]["name"])


def test_references_of_controllers_resolve(rendered: Rendered) -> None:
    for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
        for found in rendered.of(kind):
            target = found["spec"]["scaleTargetRef"]
            workload = rendered.one(target["kind"], target["name"])
            assert workload["apiVersion"] == target["apiVersion"]
            assert "replicas" not in workload["spec"]
    for found in rendered.of("StatefulSet"):
        assert rendered.one("Service", found["spec"]["serviceName"])
    for found in rendered.of("ScaledObject"):
        worker = f"{found['spec']['scaleTargetRef']['name']}-0"
        gateways = [f"{each['metadata']['name']}-7f-x" for each in rendered.of("Deployment")]
        for trigger in found["spec"]["triggers"]:
            patterns = re.findall(r'pod=~"([^"]+)"', trigger["metadata"]["query"])
            assert re.fullmatch(patterns[0], worker)
            assert all(any(re.fullmatch(p, pod) for pod in (worker, *gateways)) for p in patterns)
    for found in rendered.of("Ingress"):
        for path in found["spec"]["rules"][0]["http"]["paths"]:
            service = rendered.one("Service", path["backend"]["service"]["name"])
            ports = {port["name"] for port in service["spec"]["ports"]}
            assert path["backend"]["service"]["port"]["name"] in ports


def is_exposed(path: str, ingress: Object) -> bool:
    """Whether an Ingress serves `path`. Source: Kubernetes, Ingress, path types."""
    rules = ingress["spec"]["rules"][0]["http"]["paths"]
    return any(
        path == rule["path"]
        or (rule["pathType"] == "Prefix" and path.startswith(rule["path"] + "/"))
        for rule in rules
    )


def test_the_ingress_serves_clients_and_hides_what_is_for_the_cluster(tmp_path: Path) -> None:
    rendered = render_file("one-gpu")
    (ingress,) = rendered.of("Ingress")
    gateway, _ = load(rendered, tmp_path)
    served = [*(endpoint.path for endpoint in ENDPOINTS), *gateway.forward_paths]
    asked = ["/v1/models", "/v1/models/m", "/health", "/ping", "/version"]
    hidden = ["/metrics", "/metrics/worker", "/speculation", "/live", "/health/workers", "/v10"]

    assert [path for path in [*served, *asked] if not is_exposed(path, ingress)] == []
    assert [path for path in hidden if is_exposed(path, ingress)] == []


def test_monitors_find_a_port(rendered: Rendered) -> None:
    for found in rendered.of("ServiceMonitor"):
        labels = found["spec"]["selector"]["matchLabels"]
        (service,) = [
            each
            for each in rendered.of("Service")
            if labels.items() <= each["metadata"]["labels"].items()
        ]
        (endpoint,) = found["spec"]["endpoints"]
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    for found in rendered.of("PodMonitor"):
        (endpoint,) = found["spec"]["podMetricsEndpoints"]
        ports = {port["name"] for port in rendered.container("engine")["ports"]}
        assert endpoint["port"] in ports


def test_every_mount_has_a_volume(rendered: Rendered) -> None:
    claims = {
        claim["metadata"]["name"]
        for found in rendered.of("StatefulSet")
        for claim in found["spec"].get("volumeClaimTemplates", [])
    }
    for spec, container in containers(rendered):
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        mounts = [mount["name"] for mount in container.get("volumeMounts", [])]
        assert volumes <= set(mounts) <= volumes | claims
        assert len(mounts) == len(set(mounts))
        # A mounted Secret's file would not change with the Secret if it were a `subPath`.
        assert not any("subPath" in mount for mount in container.get("volumeMounts", []))


def test_secrets_are_references(rendered: Rendered) -> None:
    assert rendered.of("Secret") == []
    for _, container in containers(rendered):
        for variable in container.get("env", []):
            if variable["name"] in ("HF_TOKEN", "VLLM_API_KEY"):
                assert variable["valueFrom"].keys() == {"secretKeyRef"}


def test_every_pod_is_restricted(rendered: Rendered) -> None:
    """Source: Kubernetes, Pod Security Standards, `restricted`."""
    user = rendered.values["security"]["user"]
    for spec, container in containers(rendered):
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"].get("runAsUser") == user
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        for volume in spec.get("volumes", []):
            assert volume.keys() - {"name"} <= {
                "configMap", "emptyDir", "ephemeral", "persistentVolumeClaim", "secret",
            }  # fmt: skip
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_every_container_has_resources_and_a_fixed_image(rendered: Rendered) -> None:
    for _, container in containers(rendered):
        resources = container["resources"]
        assert {"cpu", "memory"} <= resources["requests"].keys()
        assert "memory" in resources["limits"]
        amounts = [*resources["requests"].values(), *resources["limits"].values()]
        assert all(QUANTITY.fullmatch(amount) for amount in amounts)
        gpus = "nvidia.com/gpu"
        assert resources["requests"].get(gpus) == resources["limits"].get(gpus)
        _, separator, tag = container["image"].rpartition(":")
        assert separator
        assert tag != "latest"


def test_whatever_serves_is_probed_and_drains(rendered: Rendered) -> None:
    serving = [container for _, container in containers(rendered) if "ports" in container]

    assert len(serving) == 1 + has_engine(rendered)
    for container in serving:
        (port,) = container["ports"]
        liveness, readiness = (
            container[name]["failureThreshold"] * container[name]["periodSeconds"]
            for name in ("livenessProbe", "readinessProbe")
        )
        assert liveness > readiness  # traffic stops before the restart
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[name]["httpGet"]["port"] == port["name"]
        assert container["lifecycle"]["preStop"]


def test_the_engine_may_take_as_long_to_start_as_the_values_allow(rendered: Rendered) -> None:
    if has_engine(rendered):
        seconds = rendered.values["engine"]["startSeconds"]
        probe = rendered.container("engine")["startupProbe"]
        assert seconds <= probe["failureThreshold"] * probe["periodSeconds"] < seconds + 10


def test_grace_periods_are_longer_than_drains(
    rendered: Rendered, loaded: tuple[GatewaySettings, EngineSettings]
) -> None:
    gateway, engine = loaded
    pre_stop = rendered.container("gateway")["lifecycle"]["preStop"]["sleep"]["seconds"]
    drained = pre_stop + gateway.drain.accept_seconds + gateway.drain.finish_seconds
    grace = rendered.pod("gateway")["spec"]["terminationGracePeriodSeconds"]
    assert drained + 20 < grace <= drained + 32

    if has_engine(rendered):
        drain = rendered.values["engine"]["drain"]
        command = rendered.container("engine")["lifecycle"]["preStop"]["exec"]["command"]
        assert command[2:] == [
            f"--removal-seconds={drain['removalSeconds']}",
            f"--finish-seconds={drain['finishSeconds']}",
        ]
        own = engine.vllm.get("shutdown_timeout", 15)
        assert isinstance(own, int)
        grace = rendered.pod("engine")["spec"]["terminationGracePeriodSeconds"]
        assert grace == sum(drain.values()) + own + 60


def test_nothing_that_go_prints_for_nothing_is_left(rendered: Rendered) -> None:
    objects = [{**found, "data": None} for found in rendered.objects]
    texts = [node for node in walk(objects) if isinstance(node, str)]

    assert not [text for text in texts if re.search("<nil>|<no value>|%!", text)]


def test_generated_files_are_rendered_unchanged(rendered: Rendered) -> None:
    data = {
        name: text
        for found in rendered.of("ConfigMap")
        for name, text in found["data"].items()
        if name != "settings.yaml"
    }
    expected = [CHART / "files" / "drain.py"] if has_engine(rendered) else []
    if rendered.values["monitoring"]["dashboards"]["enabled"]:
        expected += CHART.glob("dashboards/*.json")

    assert data == {file.name: file.read_text("utf-8") for file in expected}
    # Source: the API server's limit of a ConfigMap.
    assert all(len(text) < 2**20 for text in data.values())


def test_rules_have_the_thresholds_of_the_values(rendered: Rendered) -> None:
    rules = rendered.values["monitoring"]["rules"]
    values = {"runbookUrl": rules["runbookUrl"], **rules["thresholds"]}
    texts = rule_templates().items() if rules["enabled"] else []
    expected = {
        name.removesuffix(".yaml"): re.sub(r"\[\[(\w+)]]", lambda m: str(values[m[1]]), text)
        for name, text in texts
    }

    found = {
        each["metadata"]["name"].rpartition("-")[2]: each["spec"]
        for each in rendered.of("PrometheusRule")
    }
    assert found == {name: yaml.safe_load(text) for name, text in expected.items()}


def flat(section: Object, prefix: str = "") -> dict[str, str]:
    """The settings of a section by dotted names; numbers as text, and 1.0 as 1."""
    found: dict[str, str] = {}
    for name, value in section.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = str(value).removesuffix(".0")
    return found


def test_both_programs_load_the_settings_of_the_values(
    rendered: Rendered, loaded: tuple[GatewaySettings, EngineSettings]
) -> None:
    gateway, engine = loaded
    chosen = rendered.values["settings"]

    assert (gateway.host, gateway.port) == ("0.0.0.0", 8000)
    assert flat(chosen["gateway"]).items() <= flat(gateway.model_dump(mode="json")).items()
    assert flat(chosen["engine"]).items() <= flat(engine.model_dump(mode="json")).items()


def test_the_gateway_finds_keys_and_workers(
    rendered: Rendered, loaded: tuple[GatewaySettings, EngineSettings]
) -> None:
    gateway, _ = loaded
    files = [
        file
        for file in (
            gateway.keys.file,
            gateway.upstream.api_key_file,
            gateway.tenant_secret_file,
            gateway.limits.password_file,
            gateway.responses.password_file,
        )
        if file
    ]
    mounts = [mount["mountPath"] for mount in rendered.container("gateway")["volumeMounts"]]

    secrets = ("keys", "workerKey", "tenantSecret", "limitsPassword", "responsesPassword")
    named = [rendered.values[key]["existingSecret"] for key in secrets]
    assert len(files) == len(list(filter(None, named)))
    assert all(str(file.parent) in mounts for file in files)
    if has_engine(rendered):
        service = rendered.component("Service", "engine")
        (port,) = service["spec"]["ports"]
        name = service["metadata"]["name"]
        own = [f"dns+http://{name}.llm.svc:{port['port']}"]
        chosen = rendered.values["settings"]["gateway"].get("workers", own)
        assert list(gateway.workers) == chosen
        # Headless, so that the name resolves to every pod that is ready.
        assert service["spec"]["clusterIP"] == "None"
        assert "publishNotReadyAddresses" not in service["spec"]


def test_the_engine_listens_on_its_port_and_caches_in_its_volume(
    rendered: Rendered, loaded: tuple[GatewaySettings, EngineSettings]
) -> None:
    _, engine = loaded
    if has_engine(rendered):
        container = rendered.container("engine")
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert (engine.host, engine.uds) == ("0.0.0.0", None)
        assert container["ports"] == [{"name": "http", "containerPort": engine.port}]
        assert engine.cache_dir.is_relative_to(mounts["cache"])
    else:
        assert not [each for each in rendered.objects if "engine" in each["metadata"]["name"]]


def test_the_demo_is_the_default_profile_without_its_machine(tmp_path: Path) -> None:
    profile = ROOT / "configs" / "cpu-smollm2.yaml"
    ours = load_engine(profile, environ={})

    gateway, engine = load(render_file("cpu-demo"), tmp_path)

    assert engine.vllm == ours.vllm
    assert engine.environment == ours.environment
    assert engine.speculation.sources == ours.speculation.sources
    assert engine.speculation.max_draft_tokens == ours.speculation.max_draft_tokens
    assert gateway.pacing == load_gateway(profile, environ={}).pacing
