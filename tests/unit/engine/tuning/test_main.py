import json
from pathlib import Path

import pytest

from engine.tuning import __main__ as command
from engine.tuning.__main__ import main


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps({"prompt": "hi"}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["--concurrency", "1,many"], "--concurrency: 1,many: numbers", id="words"),
        pytest.param(["--concurrency", "0"], "1 to 256 clients", id="no clients"),
        pytest.param(["--minutes", "0"], "--minutes: 0: at least 0.5", id="no time"),
        pytest.param(["--minutes", "nan"], "--minutes: nan: at least 0.5", id="no number"),
        pytest.param(["--confirm", "1"], "--confirm: 1: a number from 2 on", id="one alone"),
        pytest.param(["--data", "none.jsonl"], "none.jsonl: no such file", id="no data"),
    ],
)
def test_a_wrong_argument_is_one_line_and_writes_nothing(
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    out = tmp_path / "out"

    status = main(["tiny", "--data", str(data), "--out", str(out), *arguments])

    (line,) = capsys.readouterr().err.splitlines()
    assert status == 2
    assert problem in line
    assert not out.exists()


def test_a_model_that_is_no_folder_is_one_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none"), "--data", str(data), "--out", str(tmp_path / "o")]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("none is not a folder")


def test_a_folder_without_a_tokenizer_is_one_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    model.mkdir()

    assert main([str(model), "--data", str(data), "--out", str(tmp_path / "out")]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot load a tokenizer" in line


def test_a_folder_of_something_else_is_one_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tiny", "--data", str(data), "--out", str(tmp_path)]) == 2

    assert "exists and holds no tuning" in capsys.readouterr().err


def test_data_or_traffic_is_needed() -> None:
    with pytest.raises(SystemExit) as left:
        command._parse(["tiny"])

    assert left.value.code == 2
