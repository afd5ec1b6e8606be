"""`python -m engine.models`."""

from pathlib import Path

import pytest

from engine.models.__main__ import main


@pytest.fixture(autouse=True)
def keep_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.__main__.exit_on_terminate", lambda: None)


def run(monkeypatch: pytest.MonkeyPatch, path: Path, text: str) -> int:
    profile = path / "profile.yaml"
    profile.write_text(text, encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["engine.models", "--config", str(profile)])
    return main()


def test_the_models_folder_is_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(monkeypatch, tmp_path, f"engine: {{model: {tmp_path}}}")

    assert (status, capsys.readouterr().out) == (0, f"{tmp_path}\n")


@pytest.mark.parametrize(
    ("text", "status"),
    [("engine: {modle: x}", 2), ("engine: {model: /no/such/folder}", 1)],
    ids=["setting", "model"],
)
def test_errors_set_the_status(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    status: int,
) -> None:
    assert run(monkeypatch, tmp_path, text) == status
    assert capsys.readouterr().err.startswith("model: ")
