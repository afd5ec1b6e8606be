from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.models.gguf_file import open_gguf
from tests.unit.engine.models.conftest import MakeGguf


def test_a_missing_key_is_named(make_gguf: MakeGguf) -> None:
    with pytest.raises(ModelError, match=r"llama\.expert_count is missing"):
        open_gguf(make_gguf()).dimension("expert_count")


def test_an_unsupported_architecture_is_rejected(make_gguf: MakeGguf) -> None:
    source = open_gguf(make_gguf("mamba"))

    with pytest.raises(ModelError, match="architecture mamba; supported are llama, qwen2"):
        _ = source.architecture


@pytest.mark.parametrize("content", [b"", b"not a model at all" * 10], ids=["empty", "text"])
def test_another_kind_of_file_is_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.gguf"
    path.write_bytes(content)

    with pytest.raises(ModelError, match=r"text\.gguf: not a readable GGUF file"):
        open_gguf(path)
