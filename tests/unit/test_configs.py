"""Every profile in configs/ loads in both packages and can be served as it is."""

from pathlib import Path

import pytest

from engine.config import EngineSettings
from engine.config import load_settings as load_engine
from engine.models import CATALOGUE, shipped_head
from gateway.settings import GatewaySettings, is_loopback
from gateway.settings import load_settings as load_gateway

CONFIGS = Path(__file__).parents[2] / "configs"
PROFILES = sorted(CONFIGS.glob("*.yaml"))
every_profile = pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)


def load(path: Path) -> tuple[GatewaySettings, EngineSettings]:
    return load_gateway(path, environ={}), load_engine(path, environ={})


@every_profile
def test_profiles_load_in_both_packages_and_have_keys_unless_local(path: Path) -> None:
    gateway, engine = load(path)

    assert engine.model
    assert is_loopback(gateway.host) or gateway.keys.file is not None


@pytest.mark.parametrize("name", ["cpu-smollm2", "cpu-qwen-coder-1.5b"])
def test_cpu_profiles_take_their_model_from_the_package_registry(name: str) -> None:
    _, engine = load(CONFIGS / f"{name}.yaml")

    assert engine.model in CATALOGUE


@every_profile
def test_a_profile_that_drafts_with_a_head_has_one(path: Path) -> None:
    _, engine = load(path)

    head = engine.speculation.head.path
    assert "head" not in engine.speculation.sources or head or shipped_head(engine.model)
