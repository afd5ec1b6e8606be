from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.config import load_settings as load_engine_settings
from gateway.settings import load_settings
from loadtest.chaos import profile
from loadtest.chaos.__main__ import PROFILE
from loadtest.chaos.faults import Kind
from loadtest.chaos.stages import read_profile


def written(tmp_path: Path, section: str, settings: dict[str, Any]) -> Path:
    path = tmp_path / "profile.yaml"
    path.write_text(yaml.safe_dump({section: settings}), encoding="utf-8")
    return path


def test_the_gateway_accepts_the_proxied_profile(tmp_path: Path) -> None:
    made = profile.proxied_gateway(read_profile(PROFILE)["gateway"], port=1234, worker_ports=[1, 2])

    settings = load_settings(written(tmp_path, "gateway", made), {})

    assert settings.workers == ("http://127.0.0.1:1", "http://127.0.0.1:2")
    assert settings.request.silence_seconds == profile.SILENCE_SECONDS
    assert settings.pacing.mode == "smooth"  # what the default profile has stays


def test_the_gateway_accepts_what_it_is_given_with_a_worker(tmp_path: Path) -> None:
    made = profile.service_gateway(
        read_profile(PROFILE)["gateway"], port=1234, worker_log=tmp_path / "worker.log"
    )

    settings = load_settings(written(tmp_path, "gateway", made), {})

    assert settings.workers == ()
    assert settings.supervisor.stalled_seconds == profile.STALLED_SECONDS
    assert settings.request.silence_seconds > settings.supervisor.stalled_seconds


def test_the_engine_accepts_what_it_is_given(tmp_path: Path) -> None:
    made = profile.worker(read_profile(PROFILE)["engine"], cache_dir=tmp_path)

    settings = load_engine_settings(written(tmp_path, "engine", made), environ={})

    assert settings.cache_dir == tmp_path
    assert settings.speculation.suffix.save_every_s == profile.SAVE_SECONDS
    assert settings.environment["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert settings.speculation.sources == ("suffix", "head")


def test_the_default_profile_is_not_changed_by_that() -> None:
    before = read_profile(PROFILE)

    profile.worker(before["engine"], cache_dir=Path("/x"))
    profile.proxied_gateway(before["gateway"], port=1, worker_ports=[1])

    assert before == read_profile(PROFILE)


@pytest.mark.parametrize("kind", list(Kind))
def test_no_fault_is_given_more_patience_than_a_worker_needs_to_start(kind: Kind) -> None:
    assert 0 <= profile.patience_seconds(kind) <= 15
