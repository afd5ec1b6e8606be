"""Values that no values file shows, those that are refused, and what needs two renderings."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring.rules import Thresholds
from tests.unit.helm.chart import (
    CHART,
    FILES,
    Object,
    complaint,
    needs_helm,
    render,
    run_helm,
)
from tests.unit.monitoring.rules.promtool import evaluate, promtool

pytestmark = needs_helm

# Each is refused for the reason that follows it, which helm reports with the value's path.
REFUSED: dict[str, tuple[object, str]] = {
    "/nonsense": (1, "additional properties 'nonsense'"),
    "/gateway/replica": (2, "additional properties 'replica'"),
    "/gateway/replicas": (-1, "'/gateway/replicas': minimum"),
    "/engine/replicas": ("2", "'/engine/replicas': got string"),
    "/gateway/preStopSeconds": (0, "'/gateway/preStopSeconds': minimum"),
    "/gateway/image/digest": ("sha256:abc", "'sha256:abc' does not match"),
    "/gateway/image/pullPolicy": ("Sometimes", "'/gateway/image/pullPolicy': value must be"),
    "/gateway/resources/limits/memory": ("1 GB", "'1 GB' does not match"),
    "/gateway/topologySpread/hosts": ("Maybe", "'/gateway/topologySpread/hosts': value must be"),
    "/gateway/disruptionBudget/maxUnavailable": ("one", "'one' does not match"),
    "/gateway/tolerations": ([{"effect": "NoRun"}], "'/gateway/tolerations/0/effect'"),
    "/gateway/affinity/nodeAfinity": ({}, "additional properties 'nodeAfinity'"),
    "/engine/keda/kvCacheUsage": (1.5, "'/engine/keda/kvCacheUsage': "),
    "/engine/multiNode/nodes": (1, "'/engine/multiNode/nodes': minimum"),
    "/keys/existingSecret": ("Not A Name", "'Not A Name' does not match"),
    "/security/user": (0, "'/security/user': minimum"),
    "/monitoring/scraping/interval": ("soon", "'soon' does not match"),
    "/monitoring/rules/runbookUrl": ("our wiki", "'our wiki' does not match"),
    "/monitoring/rules/thresholds/acceptanceDrop": (2, "thresholds/acceptanceDrop': exclusive"),
    "/monitoring/rules/thresholds/firstTokenSeconds": (1.7, "firstTokenSeconds': got number"),
    "/monitoring/rules/thresholds/firstToken": ("2.0", "additional properties 'firstToken'"),
    "/tracing/endpoint": ("collector:4317", "'collector:4317' does not match"),
    "/settings/other": ({}, "additional properties 'other'"),
    "/settings/gateway/port": (9000, "'/settings/gateway': additional properties 'port'"),
    "/settings/gateway/drain/finish": (1, "additional properties 'finish'"),
    "/settings/gateway/keys/file": ("/x", "additional properties 'file'"),
    "/settings/gateway/pacing/mode": ("fast", "'/settings/gateway/pacing/mode': value must be"),
    "/settings/engine/cache_dir": ("/x", "additional properties 'cache_dir'"),
    "/settings/engine/speculation/sources": (["luck"], "speculation/sources/0': value must be"),
    "/settings/engine/speculation/max_draft_tokens": (1000, "max_draft_tokens': maximum"),
}


def test_the_schema_refuses_wrong_values() -> None:
    values: dict[str, Any] = {}
    for path, (value, _) in REFUSED.items():
        *groups, name = path.removeprefix("/").split("/")
        group = values
        for each in groups:
            group = group.setdefault(each, {})
        group[name] = value

    said = complaint(**values)

    assert "values don't meet the specifications of the schema" in said
    assert [reason for _, reason in REFUSED.values() if reason not in said] == []


def test_the_schema_takes_whatever_the_settings_take() -> None:
    engine: Object = {
        "environment": {"VLLM_CPU_KVCACHE_SPACE": 2},
        "speculation": {"sources": False, "step_cost": [[1, 1.5], [8, 2]]},
        "vllm": {"any_option": [1, {"a": None}]},
    }
    gateway: Object = {"responses": {"store": False}}
    settings: Object = {"engine": engine, "gateway": gateway}
    values: Object = {"global": {"any": {"thing": 1}}, "settings": settings}

    assert render(**values).objects


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"keys": {"existingSecret": ""}}, "keys.existingSecret is empty"),
        ({"settings": {"gateway": {"workers": ["http://a"]}}}, "choose one"),
        ({"engine": {"enabled": False}}, "name remote workers"),
        ({"inferencePool": {"enabled": True}}, "inferencePool.endpointPicker.name"),
        (
            {
                "engine": {"enabled": False},
                "settings": {"gateway": {"workers": ["http://a"]}},
                "inferencePool": {
                    "enabled": True,
                    "members": "engine",
                    "endpointPicker": {"name": "picker"},
                },
            },
            "the release has no workers",
        ),
        ({"gateway": {"ingress": {"enabled": True}}}, "gateway.ingress.host"),
        (
            {"gateway": {"autoscaling": {"enabled": True, "minReplicas": 11}}},
            "minReplicas is more than maxReplicas",
        ),
        ({"engine": {"keda": {"enabled": True}}}, "engine.keda.serverAddress"),
        (
            {"engine": {"keda": {"enabled": True, "serverAddress": "http://p", "minReplicas": 5}}},
            "minReplicas is more than maxReplicas",
        ),
        ({"engine": {"multiNode": {"enabled": True}}}, "set engine.gpus.count"),
        (
            {"settings": {"gateway": {"responses": {"store": "sqlite"}}}},
            "pods keep no files: name a database",
        ),
        (
            {
                "engine": {"gpus": {"count": 4}, "multiNode": {"enabled": True}},
                "settings": {"engine": {"vllm": {"tensor_parallel_size": 4}}},
            },
            "over 4 GPUs (tensor x pipeline x data parallel), but engine.gpus.count x nodes is 8",
        ),
    ],
    ids=[
        "keys",
        "both",
        "none",
        "picker",
        "pool",
        "host",
        "hpa",
        "prometheus",
        "keda",
        "cpus",
        "sqlite",
        "gpus",
    ],
)
def test_values_that_contradict_each_other_are_refused(values: dict[str, Any], words: str) -> None:
    assert words in complaint(**values)


def test_the_ingress_serves_the_chosen_paths() -> None:
    rendered = render(
        keys={"existingSecret": "keys"},
        gateway={"ingress": {"enabled": True, "host": "h", "paths": ["/ping", "/rank"]}},
        settings={"gateway": {"forward_paths": ["/v1/score", "/rank"]}},
    )

    (ingress,) = rendered.of("Ingress")
    rules = ingress["spec"]["rules"][0]["http"]["paths"]
    assert [(rule["path"], rule["pathType"]) for rule in rules] == [
        ("/v1", "Prefix"),
        ("/ping", "Exact"),
        ("/rank", "Exact"),
    ]


def test_an_older_kubernetes_is_refused() -> None:
    done = run_helm(["template", "sg", str(CHART), "--kube-version", "1.28.0"])

    assert done.returncode != 0
    assert "incompatible with Kubernetes v1.28.0" in done.stderr


def test_a_kubernetes_that_cannot_sleep_runs_a_command() -> None:
    hook = render(version="1.29.3").container("gateway")["lifecycle"]["preStop"]

    assert hook == {"exec": {"command": ["sleep", "10"]}}


def test_helm_lint_finds_nothing() -> None:
    done = run_helm(["lint", "--strict", str(CHART)])

    assert done.returncode == 0, done.stdout + done.stderr


def test_whatever_is_switched_off_is_not_rendered() -> None:
    rendered = render(
        networkPolicy={"enabled": False},
        gateway={"disruptionBudget": {"enabled": False}, "serviceAccount": {"create": False}},
        engine={"serviceAccount": {"create": False}},
    )

    kinds = [each["kind"] for each in rendered.objects]
    assert "NetworkPolicy" not in kinds
    assert "ServiceAccount" not in kinds
    assert kinds.count("PodDisruptionBudget") == 1
    assert rendered.pod("engine")["spec"]["serviceAccountName"] == "default"


@pytest.mark.parametrize("members", ["gateway", "engine"])
def test_an_inference_pool_has_the_pods_that_serve(members: str) -> None:
    rendered = render(
        inferencePool={
            "enabled": True,
            "members": members,
            "endpointPicker": {"name": "picker", "port": 9003, "failureMode": "FailClose"},
            "networkFrom": [{"podSelector": {"matchLabels": {"app": "proxy"}}}],
        },
        engine={"multiNode": {"enabled": True, "nodes": 2}, "gpus": {"count": 1}},
        settings={"engine": {"vllm": {"pipeline_parallel_size": 2}}},
    )

    (pool,) = rendered.of("InferencePool")
    service = rendered.one("Service", pool["metadata"]["name"])
    spec = pool["spec"]
    assert spec["selector"] == {"matchLabels": service["spec"]["selector"]}
    (container,) = rendered.pod(members)["spec"]["containers"]
    ports = [port["containerPort"] for port in container["ports"] if port["name"] == "http"]
    assert [port["number"] for port in spec["targetPorts"]] == ports
    picker = {"name": "picker", "port": {"number": 9003}, "failureMode": "FailClose"}
    assert spec["endpointPickerRef"] == picker
    # Only workers are closed to all but those that are named.
    policy = rendered.component("NetworkPolicy", "engine")
    admitted = policy["spec"]["ingress"][0]["from"]
    proxy = {"podSelector": {"matchLabels": {"app": "proxy"}}}
    assert (proxy in admitted) == (members == "engine")


def test_groups_can_be_scaled() -> None:
    keda = {"enabled": True, "serverAddress": "http://p"}
    group = {"enabled": True, "nodes": 2}
    rendered = render(
        engine={"keda": keda, "multiNode": group, "gpus": {"count": 1}},
        settings={"engine": {"vllm": {"pipeline_parallel_size": 2}}},
    )

    (scaled,), (workers,) = rendered.of("ScaledObject"), rendered.of("LeaderWorkerSet")
    target = scaled["spec"]["scaleTargetRef"]
    assert target["name"] == workers["metadata"]["name"]
    assert (target["kind"], target["apiVersion"]) == (workers["kind"], workers["apiVersion"])
    assert f"{target['name']}-[0-9]" in scaled["spec"]["triggers"][0]["metadata"]["query"]


@pytest.mark.parametrize(
    ("series", "waiting", "priced_out"),
    [
        ({"engine": [(1, 3), (0.9, 0), (0.2, 2)], "gateway": [4, 1]}, 10, 1),
        ({"engine": [(0.8, 1), (1, 1), (0, 0)], "gateway": []}, 2, 2),
        ({"engine": [(1, 0), (0.1, 7), (0, 0)], "gateway": [0]}, 7, 0),
    ],
    ids=["one short", "two short, no gateway", "none short"],
)
def test_workers_are_added_while_requests_wait_and_drafts_do_not_pay(
    tmp_path: Path, series: dict[str, Any], waiting: float, priced_out: float
) -> None:
    rendered = render(engine={"keda": {"enabled": True, "serverAddress": "http://p"}})
    (scaled,) = rendered.of("ScaledObject")
    queries = {
        trigger["name"]: trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]
    }
    (workers,), (gateways,) = rendered.of("StatefulSet"), rendered.of("Deployment")
    namespace = workers["metadata"]["namespace"]
    samples = {'vllm:num_requests_waiting{namespace="other",pod="sg-engine-0"}': "99"}
    for number, (price, requests) in enumerate(series["engine"]):
        pod = f'namespace="{namespace}",pod="{workers["metadata"]["name"]}-{number}"'
        samples[f"engine_spec_price{{{pod}}}"] = str(price)
        samples[f'vllm:num_requests_waiting{{{pod},engine="0"}}'] = str(requests)
    for number, requests in enumerate(series["gateway"]):
        pod = f'namespace="{namespace}",pod="{gateways["metadata"]["name"]}-7f-{number}"'
        samples[f"gateway_queue_depth{{{pod}}}"] = str(requests)

    for name, value in (("waiting", waiting), ("priced-out", priced_out)):
        expected = [{"labels": "{}", "value": value}]
        assert evaluate(tmp_path, samples, queries[name], at="0m", expected=expected) == ""


def test_a_change_rolls_only_the_pods_that_read_it() -> None:
    def checksums(**settings: Any) -> tuple[str, str]:
        rendered = render(settings=settings)
        gateway, engine = (
            rendered.pod(component)["metadata"]["annotations"]["checksum/settings"]
            for component in ("gateway", "engine")
        )
        return gateway, engine

    before = checksums()
    of_gateway = checksums(gateway={"drain": {"finish_seconds": 61}})
    of_engine = checksums(engine={"speculation": {"max_draft_tokens": 7}})

    assert of_gateway[0] != before[0]
    assert of_gateway[1] == before[1]
    assert of_engine[0] == before[0]
    assert of_engine[1] != before[1]


def test_prometheus_accepts_rules_with_other_thresholds(tmp_path: Path) -> None:
    numbers = {
        name: 0.00001
        for name, field in Thresholds.model_fields.items()
        if isinstance(field.default, float | int)
    }
    rendered = render(monitoring={"rules": {"enabled": True, "thresholds": numbers}})
    for rule in rendered.of("PrometheusRule"):
        path = tmp_path / f"{rule['metadata']['name']}.yaml"
        path.write_text(yaml.safe_dump(rule["spec"]), encoding="utf-8")

    done = promtool("check", "rules", *map(str, sorted(tmp_path.iterdir())))

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(numbers) > 15


@pytest.mark.parametrize("said", [True, False], ids=["path", "URL"])
def test_notes_warn_of_a_runbook_that_cannot_be_opened(said: bool) -> None:
    rules = {"enabled": True} if said else {"enabled": True, "runbookUrl": "https://a/b.md"}
    values = json.dumps({"monitoring": {"rules": rules}})
    arguments = ["install", "sg", str(CHART), "--dry-run=client", "--values", "-"]
    notes = run_helm(arguments, values).stdout.partition("NOTES:")[2]

    assert "specgate keys create" in notes
    assert ("set monitoring.rules.runbookUrl" in notes) is said


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        ("my-specgate", {}, "my-specgate-gateway"),
        ("sg", {"nameOverride": "llm"}, "sg-llm-gateway"),
        ("r" * 53, {}, "r" * 40 + "-gateway"),
    ],
    ids=["contained", "name", "long"],
)
def test_names(release: str, values: dict[str, str], name: str) -> None:
    arguments = ["template", release, str(CHART), "--values", "-"]
    done = run_helm(arguments, json.dumps(values))

    assert f"\n  name: {name}\n" in done.stdout


@pytest.mark.parametrize("name", ["one-gpu", "multi-node"])
def test_the_longest_name_leaves_room_for_what_controllers_add(name: str) -> None:
    """Source: a pod's `controller-revision-hash` is its StatefulSet's name and 11 characters."""
    done = run_helm(["template", "r" * 53, str(CHART), "--values", str(FILES[name])])

    for found in yaml.safe_load_all(done.stdout):
        room = {"StatefulSet": 52, "LeaderWorkerSet": 52 - len("-999")}.get(found["kind"], 63)
        assert len(found["metadata"]["name"]) <= room
