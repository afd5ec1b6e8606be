import socket
from pathlib import Path

import pytest

from engine.config import EngineSettings
from engine.errors import ConfigError
from engine.worker import launch
from engine.worker.launch import clear_socket, is_good_at_bfloat16


def test_a_stale_socket_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "w.sock"
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))

    clear_socket(path)

    assert not path.exists()


def test_other_files_are_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data", encoding="utf-8")

    with pytest.raises(ConfigError, match="exists and is not a socket"):
        clear_socket(path)

    assert path.read_text("utf-8") == "data"


@pytest.mark.parametrize(
    ("multiplies", "supported", "eager", "on", "good"),
    [
        (True, False, False, False, True),
        (False, True, True, True, True),
        (False, True, False, True, False),
        (False, False, True, True, False),
        (False, True, True, False, False),
    ],
)
def test_bfloat16_needs_fast_instructions_or_our_products(
    multiplies: bool,
    supported: bool,
    eager: bool,
    on: bool,
    good: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launch, "multiplies_bfloat16", lambda: multiplies)
    monkeypatch.setattr("engine.kernels.is_supported", lambda: supported)
    settings = EngineSettings(model="m", vllm={"enforce_eager": eager}, cpu_kernels=on)

    assert is_good_at_bfloat16(settings) is good
