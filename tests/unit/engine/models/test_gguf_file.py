from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.models.gguf_file import open_gguf
from tests.unit.engine.models.conftest import HIDDEN, TOKENS, MakeGguf


def test_metadata_comes_back_typed(make_gguf: MakeGguf) -> None:
    source = open_gguf(make_gguf())

    assert source.architecture_name == "llama"
    assert source.dimension("embedding_length") == HIDDEN
    assert source.ratio("rope.freq_base") == 10000.0
    assert source.items("tokenizer.ggml.tokens") == TOKENS


def test_tensors_come_in_row_major_order(make_gguf: MakeGguf) -> None:
    shapes = {name: values.shape for name, values in open_gguf(make_gguf()).tensors()}

    assert shapes["token_embd.weight"] == (len(TOKENS), HIDDEN)
    assert shapes["blk.0.attn_k.weight"] == (HIDDEN // 2, HIDDEN)


def test_a_missing_key_names_itself(make_gguf: MakeGguf) -> None:
    with pytest.raises(ModelError, match=r"llama\.expert_count is missing"):
        open_gguf(make_gguf()).dimension("expert_count")


def test_an_architecture_without_a_table_is_refused(make_gguf: MakeGguf) -> None:
    source = open_gguf(make_gguf("mamba"))

    with pytest.raises(ModelError, match="architecture mamba; we can convert llama, qwen2"):
        _ = source.architecture


@pytest.mark.parametrize("content", [b"", b"not a model at all" * 10], ids=["empty", "text"])
def test_another_kind_of_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.gguf"
    path.write_bytes(content)

    with pytest.raises(ModelError, match=r"text\.gguf: is not a GGUF file"):
        open_gguf(path)
