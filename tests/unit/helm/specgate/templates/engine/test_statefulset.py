from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineSettings
from tests.unit.helm.chart import CI_FILES, Object, needs_helm, render

pytestmark = needs_helm

CI = {file.stem.removesuffix("-values"): file for file in CI_FILES}
WITH_WORKERS = [CI["cpu-demo"], CI["one-gpu"], CI["tensor-parallel"]]
NAME = "sg-specgate-engine"


def stateful_set(*files: Path, **values: Any) -> Object:
    return render(*files, **values).one("StatefulSet", NAME)


def test_it_runs_the_engine_with_the_settings() -> None:
    container = render().container("engine")

    assert container["command"] == [
        "python", "-m", "engine", "--config", "/etc/specgate/settings/settings.yaml",
    ]  # fmt: skip
    assert container["image"] == "specgate:cpu"
    assert container["ports"] == [{"name": "http", "containerPort": 8001}]


def test_its_service_is_the_headless_one() -> None:
    rendered = render()

    spec = rendered.one("StatefulSet", NAME)["spec"]
    assert rendered.one("Service", spec["serviceName"])["spec"]["clusterIP"] == "None"
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("seconds", [10, 15, 1800])
def test_a_start_may_take_as_long_as_the_values_say(seconds: int) -> None:
    probe = render(engine={"startSeconds": seconds}).container("engine")["startupProbe"]

    allowed = probe["failureThreshold"] * probe["periodSeconds"]
    assert seconds <= allowed < seconds + 10
    assert probe["httpGet"] == {"path": "/health", "port": "http"}


def test_probes_ask_the_engine_and_are_slower_to_restart_it_than_to_spare_it() -> None:
    container = render().container("engine")
    liveness, readiness = container["livenessProbe"], container["readinessProbe"]

    def patience(probe: Object) -> int:
        return int(probe["failureThreshold"] * probe["periodSeconds"])

    assert liveness["httpGet"] == readiness["httpGet"] == {"path": "/health", "port": "http"}
    assert patience(liveness) > patience(readiness)


@pytest.mark.parametrize("file", WITH_WORKERS, ids=lambda file: file.stem)
@pytest.mark.parametrize(
    "drain", [{}, {"removalSeconds": 5, "finishSeconds": 900}], ids=["", "long"]
)
def test_the_grace_period_is_longer_than_both_phases_and_vllms_own_end(
    file: Path, drain: dict[str, int]
) -> None:
    rendered = render(file, engine={"drain": drain})

    pod, container = rendered.pod("engine"), rendered.container("engine")
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    seconds = dict(part.removeprefix("--").split("=") for part in command[2:])
    phases = int(seconds["removal-seconds"]) + int(seconds["finish-seconds"])
    settings = EngineSettings(**rendered.settings()["engine"])
    own = settings.vllm.get("shutdown_timeout", 15)
    assert isinstance(own, int)
    assert pod["terminationGracePeriodSeconds"] == phases + own + 60


def test_the_first_phase_outlasts_what_names_and_gateways_remember() -> None:
    """Source: kubeadm's CoreDNS answers with a TTL of 30 s; gateways look every 5 s."""
    command = render().container("engine")["lifecycle"]["preStop"]["exec"]["command"]

    assert "--removal-seconds=40" in command


def test_gpus_are_asked_for_as_whole_devices() -> None:
    container = render(CI["tensor-parallel"]).container("engine")
    pod = render(CI["tensor-parallel"]).pod("engine")

    resources = container["resources"]
    assert resources["requests"]["nvidia.com/gpu"] == "4"
    assert resources["limits"]["nvidia.com/gpu"] == "4"
    assert pod["runtimeClassName"] == "nvidia"
    assert container["image"] == "specgate:cuda"


def test_without_gpus_none_is_asked_for() -> None:
    resources = render().container("engine")["resources"]

    assert resources["requests"].keys() == resources["limits"].keys() | {"cpu"}


def test_each_worker_keeps_its_cache() -> None:
    spec = stateful_set(engine={"cache": {"size": "7Gi", "storageClassName": "fast"}})["spec"]

    (claim,) = spec["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "cache"
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "7Gi"}},
    }
    retention = spec["persistentVolumeClaimRetentionPolicy"]
    assert retention == {"whenScaled": "Retain", "whenDeleted": "Retain"}
    # The API server refuses any later change of a claim's template.
    assert "helm.sh/chart" not in claim["metadata"]["labels"]


def test_workers_may_share_a_claim() -> None:
    rendered = render(engine={"cache": {"existingClaim": "models"}})

    spec = rendered.one("StatefulSet", NAME)["spec"]
    (cache,) = [each for each in rendered.pod("engine")["volumes"] if each["name"] == "cache"]
    assert cache["persistentVolumeClaim"] == {"claimName": "models"}
    assert not {"volumeClaimTemplates", "persistentVolumeClaimRetentionPolicy"} & spec.keys()


def test_shared_memory_has_its_size() -> None:
    volumes = {each["name"]: each for each in render(CI["one-gpu"]).pod("engine")["volumes"]}

    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}


def test_secrets_come_from_the_environment_by_reference() -> None:
    environment = render(
        workerKey={"existingSecret": "wk", "secretKey": "k"},
        engine={"huggingFaceToken": {"existingSecret": "hf"}},
    ).container("engine")["env"]

    found = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in environment}
    assert found == {
        "HF_TOKEN": {"name": "hf", "key": "token"},
        "VLLM_API_KEY": {"name": "wk", "key": "k"},
    }


def test_without_any_there_is_no_environment() -> None:
    assert "env" not in render().container("engine")


def test_replicas_are_kedas_where_it_scales() -> None:
    keda = {"enabled": True, "serverAddress": "http://p"}

    assert stateful_set(engine={"replicas": 3})["spec"]["replicas"] == 3
    assert "replicas" not in stateful_set(engine={"keda": keda})["spec"]
