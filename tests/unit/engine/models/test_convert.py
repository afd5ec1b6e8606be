import json
from pathlib import Path
from typing import Any

import pytest

from engine.models.convert import convert
from tests.unit.engine.models.conftest import MakeGguf


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "out"
    path.mkdir()
    return path


def test_qwen2_has_an_output_layer_and_two_end_tokens(make_gguf: MakeGguf, folder: Path) -> None:
    convert(make_gguf("qwen2", preparation="qwen2"), folder, report=lambda _: None)

    assert read(folder / "config.json")["tie_word_embeddings"] is False
    assert read(folder / "generation_config.json")["eos_token_id"] == [2, 0]


def test_the_tokenizer_config_has_the_chat_template(make_gguf: MakeGguf, folder: Path) -> None:
    convert(make_gguf(), folder, report=lambda _: None)

    config = read(folder / "tokenizer_config.json")
    assert config["chat_template"] == "{{ messages[0]['content'] }}"
    assert (config["bos_token"], config["eos_token"]) == ("<|im_start|>", "<|im_end|>")


@pytest.mark.parametrize(
    ("architecture", "preparation"),
    [("llama", "smollm"), ("qwen2", "qwen2")],
    ids=["llama", "qwen2"],
)
def test_transformers_loads_every_weight(
    make_gguf: MakeGguf, folder: Path, architecture: str, preparation: str
) -> None:
    from transformers import AutoModelForCausalLM

    convert(make_gguf(architecture, preparation=preparation), folder, report=lambda _: None)

    _, loading = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    assert not loading["mismatched_keys"]
