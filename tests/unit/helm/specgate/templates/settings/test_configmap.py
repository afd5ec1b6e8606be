"""What the chart renders is what the two programs load, with nothing that they do not know."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.config import EngineSettings
from engine.config import load_settings as load_engine
from gateway.settings import GatewaySettings
from gateway.settings import load_settings as load_gateway
from tests.unit.helm.chart import CI_FILES, ROOT, Rendered, complaint, needs_helm, render

pytestmark = needs_helm

CI = {file.stem.removesuffix("-values"): file for file in CI_FILES}
every_file = pytest.mark.parametrize("file", CI_FILES, ids=lambda file: file.stem)


def loaded(rendered: Rendered, folder: Path) -> tuple[GatewaySettings, EngineSettings]:
    profile = folder / "settings.yaml"
    text = rendered.one("ConfigMap", "sg-specgate-settings")["data"]["settings.yaml"]
    profile.write_text(text, encoding="utf-8")
    return load_gateway(profile, environ={}), load_engine(profile, environ={})


def said(section: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """What a section sets, by dotted names; numbers as text, and 1.0 as 1."""
    found: dict[str, str] = {}
    for name, value in section.items():
        if isinstance(value, dict):
            found |= said(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = str(value).removesuffix(".0")
    return found


@every_file
def test_both_programs_load_what_the_values_say(file: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(file.read_text(encoding="utf-8"))["settings"]

    gateway, engine = loaded(render(file), tmp_path)

    assert (gateway.host, gateway.port) == ("0.0.0.0", 8000)
    assert said(values.get("gateway", {})).items() <= said(gateway.model_dump(mode="json")).items()
    assert said(values.get("engine", {})).items() <= said(engine.model_dump(mode="json")).items()


def test_the_demo_is_the_default_profile_without_its_machine(tmp_path: Path) -> None:
    profile = ROOT / "configs" / "cpu-smollm2.yaml"
    ours = load_engine(profile, environ={})

    gateway, engine = loaded(render(CI["cpu-demo"]), tmp_path)

    assert engine.vllm == ours.vllm
    assert engine.environment == ours.environment
    assert engine.speculation.sources == ours.speculation.sources
    assert engine.speculation.max_draft_tokens == ours.speculation.max_draft_tokens
    assert gateway.pacing == load_gateway(profile, environ={}).pacing


def test_gateways_find_workers_by_the_name_of_the_headless_service(tmp_path: Path) -> None:
    rendered = render()
    service = rendered.one("Service", "sg-specgate-engine")

    gateway, engine = loaded(rendered, tmp_path)

    assert gateway.workers == ("dns+http://sg-specgate-engine.llm.svc:8001",)
    assert service["spec"]["clusterIP"] == "None"
    assert (engine.host, engine.port, engine.uds) == ("0.0.0.0", 8001, None)
    assert service["spec"]["ports"][0]["port"] == engine.port


def test_remote_workers_need_no_engine(tmp_path: Path) -> None:
    rendered = render(CI["remote-workers"])

    gateway, _ = loaded(rendered, tmp_path)

    assert gateway.workers == ("http://10.0.0.11:8001", "http://10.0.0.12:8001")
    assert "engine" not in rendered.settings()
    assert [found for found in rendered.objects if "engine" in found["metadata"]["name"]] == []


def test_keys_and_the_key_of_workers_are_files_of_secrets(tmp_path: Path) -> None:
    rendered = render(workerKey={"existingSecret": "wk"})

    gateway, _ = loaded(rendered, tmp_path)

    mounts = {mount["name"]: mount for mount in rendered.container("gateway")["volumeMounts"]}
    assert gateway.keys.file == Path("/etc/specgate/keys/keys.jsonl")
    assert gateway.keys.file.is_relative_to(mounts["keys"]["mountPath"])
    assert gateway.upstream.api_key_file == Path("/etc/specgate/worker-key/key")
    assert gateway.upstream.api_key_file.is_relative_to(mounts["worker-key"]["mountPath"])


def test_what_is_cached_lies_in_the_volume(tmp_path: Path) -> None:
    rendered = render()

    _, engine = loaded(rendered, tmp_path)

    mounts = {
        mount["name"]: mount["mountPath"] for mount in rendered.container("engine")["volumeMounts"]
    }
    assert engine.cache_dir.is_relative_to(mounts["cache"])


def test_one_endpoint_of_traces_is_for_both(tmp_path: Path) -> None:
    endpoint = "http://collector:4318/v1/traces"
    rendered = render(tracing={"endpoint": endpoint})

    gateway, engine = loaded(rendered, tmp_path)

    assert gateway.tracing.endpoint == endpoint
    assert engine.vllm["otlp_traces_endpoint"] == endpoint
    variables = {each["name"]: each.get("value") for each in rendered.container("engine")["env"]}
    assert variables["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "http/protobuf"


def test_large_numbers_stay_numbers(tmp_path: Path) -> None:
    gateway, _ = loaded(
        render(settings={"gateway": {"stream": {"max_frame_bytes": 123456789}}}), tmp_path
    )

    assert gateway.stream.max_frame_bytes == 123456789


def test_a_change_rolls_the_pods_that_read_it_and_no_others() -> None:
    def checksums(**settings: Any) -> tuple[str, str]:
        rendered = render(settings=settings)
        gateway, engine = (
            rendered.template(component)["metadata"]["annotations"]["checksum/settings"]
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


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"keys": {"existingSecret": ""}}, "keys.existingSecret is empty"),
        ({"settings": {"gateway": {"workers": ["http://a"]}}}, "choose one"),
        ({"engine": {"enabled": False}}, "name remote workers"),
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
            {"engine": {"gpus": {"count": 2}}},
            "over 1 GPUs (tensor x pipeline x data parallel), but",
        ),
        (
            {
                "engine": {"gpus": {"count": 4}, "multiNode": {"enabled": True}},
                "settings": {"engine": {"vllm": {"tensor_parallel_size": 4}}},
            },
            "over 4 GPUs (tensor x pipeline x data parallel), but engine.gpus.count x nodes is 8",
        ),
    ],
    ids=["keys", "both", "none", "host", "hpa", "prometheus", "keda", "cpus", "gpus", "nodes"],
)
def test_values_that_contradict_each_other_are_refused(values: dict[str, Any], words: str) -> None:
    assert words in complaint(**values)
