"""Every profile that we ship loads in both packages, and says what its file name promises."""

from pathlib import Path

import pytest

from engine.config import EngineSettings
from engine.config import load_settings as load_engine
from engine.models import CATALOGUE, shipped_head
from gateway.settings import GatewaySettings
from gateway.settings import load_settings as load_gateway

CONFIGS = Path(__file__).parents[2] / "configs"
PROFILES = sorted(CONFIGS.glob("*.yaml"))


def load(name: str) -> tuple[GatewaySettings, EngineSettings]:
    path = CONFIGS / f"{name}.yaml"
    return load_gateway(path, environ={}), load_engine(path, environ={})


@pytest.mark.parametrize("path", PROFILES, ids=[path.stem for path in PROFILES])
def test_every_profile_loads(path: Path) -> None:
    gateway, engine = load(path.stem)

    assert gateway.port == 8000
    assert engine.model


def test_the_five_profiles_are_there() -> None:
    assert [path.stem for path in PROFILES] == [
        "cpu-qwen-coder-1.5b",
        "cpu-smollm2",
        "gateway-remote",
        "gpu-llama-3.1-8b",
        "gpu-llama-3.3-70b-tp4",
    ]


@pytest.mark.parametrize("name", ["cpu-smollm2", "cpu-qwen-coder-1.5b"])
def test_cpu_profiles_take_their_model_from_the_registry_and_stay_on_loopback(name: str) -> None:
    gateway, engine = load(name)

    assert gateway.host == "127.0.0.1"
    assert engine.model in CATALOGUE
    assert engine.environment["VLLM_CPU_KVCACHE_SPACE"] == "2"


def test_the_default_profile_drafts_from_the_index_and_the_head_that_ships() -> None:
    _, engine = load("cpu-smollm2")

    assert engine.speculation.sources == ("suffix", "head")
    assert shipped_head(engine.model) is not None


@pytest.mark.parametrize("path", PROFILES, ids=[path.stem for path in PROFILES])
def test_every_profile_paces(path: Path) -> None:
    gateway, _ = load(path.stem)

    assert gateway.pacing.mode == "smooth"
    assert gateway.pacing.max_delay_ms == 120


@pytest.mark.parametrize("name", ["gpu-llama-3.1-8b", "gpu-llama-3.3-70b-tp4", "gateway-remote"])
def test_profiles_that_others_reach_need_keys(name: str) -> None:
    gateway, _ = load(name)

    assert gateway.host == "0.0.0.0"
    assert gateway.keys.file == Path("/etc/specgate/keys.jsonl")


def test_the_large_profile_spans_four_gpus() -> None:
    _, engine = load("gpu-llama-3.3-70b-tp4")

    assert engine.vllm["tensor_parallel_size"] == 4


def test_the_remote_profile_starts_no_worker() -> None:
    gateway, _ = load("gateway-remote")

    assert [str(url).rstrip("/") for url in gateway.workers] == [
        "http://127.0.0.1:8101",
        "http://127.0.0.1:8102",
    ]
