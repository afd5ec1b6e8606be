from pathlib import Path

import pytest

from gateway.cli import main
from gateway.cli.model import fetch_model
from gateway.cli.profiles import find_profile
from tests.unit.gateway.cli.stand_in import interpreter


def test_the_engine_fetches_the_model_of_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    interpreter(tmp_path, monkeypatch)('echo "$@"; exit 7')

    assert main(["model", "--config", "cpu-smollm2"]) == 7

    assert capfd.readouterr().out.split() == [
        "-m",
        "engine.models",
        "--config",
        str(find_profile("cpu-smollm2")),
    ]


def test_before_a_start_the_path_is_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    interpreter(tmp_path, monkeypatch)("echo /the/folder; echo 50 % >&2")

    assert fetch_model(Path("p.yaml"), show_path=False) == 0

    assert capfd.readouterr() == ("", "50 %\n")
