"""The parts of `python -m engine` that do not need vllm."""

import json
from pathlib import Path

import pytest

from engine.__main__ import main


@pytest.fixture(autouse=True)
def keep_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.__main__.exit_on_terminate", lambda: None)


def test_print_config_shows_the_merged_settings(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--print-config", "--port", "9100"])

    shown = json.loads(capsys.readouterr().out)
    assert status == 0
    assert (shown["port"], shown["uds"]) == (9100, None)


def test_invalid_settings_exit_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("engine: {port: 0, modle: x}", encoding="utf-8")

    status = main(["--config", str(path), "--print-config"])

    captured = capsys.readouterr()
    assert (status, captured.out) == (2, "")
    assert [line.partition(": ")[0] for line in captured.err.splitlines()] == ["engine"] * 2


def test_an_untested_vllm_is_rejected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("engine.__main__.find_version", lambda: "0.33.1")

    status = main(["--port", "9100"])

    assert status == 1
    assert "0.33.1 was not tested with this engine; tested: 0.32.0" in capsys.readouterr().err


def test_socket_and_port_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--uds", "a.sock", "--port", "1"])

    assert caught.value.code == 2
    assert "--uds cannot be combined with" in capsys.readouterr().err
