"""Which codes a layer of vLLM gets."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from engine.worker.codes import ModelCodes

INPUTS = 32


def write(folder: Path, file: str, rows: dict[str, int], *, has_least: bool = True) -> None:
    arrays = {}
    for name, count in rows.items():
        key = f"{name}.weight"
        arrays[f"{key}/scales"] = np.ones((count, 1 if has_least else 2), np.float32)
        if has_least:
            arrays[f"{key}/codes"] = np.zeros((count, INPUTS // 2), np.uint8)
            arrays[f"{key}/least"] = np.zeros((count, 1), np.float32)
        else:
            arrays[f"{key}/codes"] = np.zeros((count, INPUTS), np.int8)
    save_file(arrays, folder / file)


def rows_of(codes: ModelCodes, name: str) -> list[int]:
    return [part.codes.shape[0] for part in codes.of_layer(name)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    layer = "model.layers.0"
    rows = {"q": 8, "k": 4, "v": 2}
    attention = {f"{layer}.self_attn.{name}_proj": count for name, count in rows.items()}
    write(tmp_path, "model-1.codes", attention)
    write(tmp_path, "model-2.codes", {f"{layer}.mlp.up_proj": 6, f"{layer}.mlp.down_proj": 5})
    write(tmp_path, "model-3.codes", {"model.embed_tokens": 7}, has_least=False)
    return tmp_path


def test_the_parts_of_a_fused_layer_come_in_its_order(folder: Path) -> None:
    codes = ModelCodes(folder)

    assert rows_of(codes, "model.layers.0.self_attn.qkv_proj") == [8, 4, 2]
    assert rows_of(codes, "model.layers.0.mlp.down_proj") == [5]
    (down,) = codes.of_layer("model.layers.0.mlp.down_proj")
    assert (down.bits, down.inputs) == (4, INPUTS)
    down.check()


def test_what_follows_a_part_without_codes_has_none(folder: Path) -> None:
    assert rows_of(ModelCodes(folder), "model.layers.0.mlp.gate_up_proj") == []


@pytest.mark.parametrize("name", ["lm_head", "model.embed_tokens"])
def test_the_output_layer_may_be_the_embedding(folder: Path, name: str) -> None:
    (found,) = ModelCodes(folder).of_layer(name)

    assert (found.bits, found.inputs, found.least) == (8, INPUTS, None)
    found.check()


def test_an_output_layer_of_its_own_comes_first(folder: Path) -> None:
    write(folder, "model-4.codes", {"lm_head": 9})
    codes = ModelCodes(folder)

    assert rows_of(codes, "lm_head") == [9]
    assert rows_of(codes, "model.embed_tokens") == [7]


@pytest.mark.parametrize("name", ["", "model.layers.1.mlp.down_proj", "other"])
def test_other_layers_have_none(folder: Path, name: str) -> None:
    assert rows_of(ModelCodes(folder), name) == []


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert rows_of(ModelCodes(tmp_path / "org" / "model"), "lm_head") == []
