import json
from pathlib import Path

import pytest

from gateway.cli import main
from tests.unit.gateway.cli.stand_in import interpreter


def test_the_merged_settings_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text("gateway: {workers: ['http://a:1'], port: 9}", encoding="utf-8")

    assert main(["check-config", "--config", str(profile)]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert shown["gateway"]["port"] == 9
    assert shown["gateway"]["drain"] == {"accept_seconds": 5.0, "finish_seconds": 60.0}
    assert "engine" not in shown


def test_the_engine_reads_its_own_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert shown["engine"]["model"] == "smollm2-135m"


def test_an_error_of_the_engine_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interpreter(tmp_path, monkeypatch)("echo engine.model: is missing >&2; exit 2")

    assert main(["check-config"]) == 2

    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "engine.model: is missing\n")


def test_mistakes_of_both_sections_are_shown_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text(
        "gateway: {prot: 1}\nengine: {modle: x, vllm: {max_num_sequences: 4}}", encoding="utf-8"
    )

    assert main(["check-config", "--config", str(profile)]) == 2

    shown = capsys.readouterr()
    assert shown.out == ""
    assert "gateway.prot: " in shown.err
    assert "engine.modle: unknown setting" in shown.err
    assert "did you mean max_num_seqs?" in shown.err


def test_without_the_engine_its_section_is_not_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert main(["check-config"]) == 0

    shown = capsys.readouterr()
    assert "engine" not in json.loads(shown.out)
    assert shown.err == "engine: not checked: it is not installed here\n"


def test_secrets_are_shown_by_file_name_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, profile = tmp_path / "secret", tmp_path / "p.yaml"
    secret.write_text("hunter2", encoding="utf-8")
    profile.write_text(
        f"gateway: {{workers: ['http://a:1'], upstream: {{api_key_file: {secret}}}}}",
        encoding="utf-8",
    )

    main(["check-config", "--config", str(profile)])

    shown = capsys.readouterr().out
    assert str(secret) in shown
    assert "hunter2" not in shown
