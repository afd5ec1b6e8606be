import json
from pathlib import Path

import pytest

from engine.config import EngineSettings
from engine.models.inspection import find_model_folder, find_model_problems


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}), encoding="utf-8")
    (folder / "model.safetensors").touch()
    (folder / "tokenizer.json").touch()
    return folder


def problems(folder: Path, **options: object) -> list[str]:
    settings = EngineSettings.model_validate({"model": str(folder), "vllm": options})
    return find_model_problems(folder, settings)


def test_a_complete_folder_has_no_problems(model: Path) -> None:
    assert problems(model) == []


def test_a_missing_folder_is_one_problem(tmp_path: Path) -> None:
    assert problems(tmp_path / "none") == [f"engine.model: {tmp_path / 'none'} is not a folder"]


def test_everything_that_is_missing_is_named(model: Path) -> None:
    for file in model.iterdir():
        file.unlink()

    config, weights, tokenizer = problems(model)

    assert "config.json: " in config
    assert "no weights" in weights
    assert "no tokenizer" in tokenizer


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_config_that_describes_no_model_is_a_problem(model: Path, text: str) -> None:
    (model / "config.json").write_text(text, encoding="utf-8")

    assert len(problems(model)) == 1


def test_weights_and_tokenizer_may_be_elsewhere(model: Path) -> None:
    (model / "model.safetensors").unlink()
    (model / "tokenizer.json").unlink()

    assert problems(model, load_format="dummy", tokenizer="org/name") == []


@pytest.mark.parametrize(
    ("name", "is_folder"),
    [("org/name", False), ("gpt2", False), ("/no/where", True), ("a b/c", True), ("a/b/c", True)],
)
def test_what_cannot_be_a_hugging_face_id_is_a_folder(name: str, is_folder: bool) -> None:
    assert (find_model_folder(EngineSettings(model=name)) is not None) == is_folder
