from pathlib import Path

import pytest

from gateway import __version__
from gateway.cli import main
from tests.unit.gateway.cli.stand_in import interpreter


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])

    assert caught.value.code == 0
    assert capsys.readouterr().out == f"specgate {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["fly"], ["serve", "--fast"], ["keys"]], ids=str)
def test_an_unknown_command_is_explained(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert "usage: specgate" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "check-config", "model"])
def test_a_missing_profile_exits_with_2(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--config", "nope"]) == 2
    assert capsys.readouterr().err.startswith("nope: no such profile; there are cpu-")


@pytest.mark.parametrize("command", ["serve", "check-config"])
def test_a_wrong_setting_exits_with_2_and_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text("gateway: {prot: 1}", encoding="utf-8")

    assert main([command, "--config", str(profile)]) == 2
    assert capsys.readouterr().err == "gateway.prot: Extra inputs are not permitted\n"


def test_ctrl_c_before_the_gateway_listens_shows_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    interpreter(tmp_path, monkeypatch)("kill -INT $PPID; sleep 0.2")

    assert main(["model"]) == 130
    assert capfd.readouterr().err == ""


def test_every_command_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])

    assert caught.value.code == 0
    listed = capsys.readouterr().out
    for command in ("serve", "check-config", "keys", "heads", "model", "train"):
        assert command in listed
