import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from safetensors.torch import load_file

from engine.errors import ModelError
from engine.models.gguf_file import open_gguf
from engine.models.weights import rename_tensor, write_weights
from engine.worker.codes import ModelCodes
from tests.unit.engine.models.conftest import HEADS, HIDDEN, MakeGguf


def convert(path: Path, folder: Path) -> dict[str, torch.Tensor]:
    folder.mkdir()
    write_weights(open_gguf(path), folder, report=lambda _: None)
    return {
        name: tensor
        for shard in folder.glob("*.safetensors")
        for name, tensor in load_file(shard).items()
    }


def values_of(path: Path) -> dict[str, np.ndarray]:
    return {tensor.name: tensor.values for tensor in open_gguf(path).tensors()}


def interleave(rows: np.ndarray, heads: int) -> np.ndarray:
    """Reorder the rows of a rotary projection as a GGUF writer does."""
    size = rows.shape[0] // heads
    order = [
        head * size + half * (size // 2) + pair
        for head in range(heads)
        for pair in range(size // 2)
        for half in range(2)
    ]
    return rows[order]


@pytest.mark.parametrize(
    "gguf_name", ["rope_freqs.weight", "blk.0.attn_q.scale", "blk.0.moe.weight", "blk.0"]
)
def test_an_unknown_tensor_is_rejected(gguf_name: str) -> None:
    with pytest.raises(ModelError, match=f"unknown tensor {gguf_name}"):
        rename_tensor(gguf_name)


def test_rotary_rows_of_llama_are_restored(make_gguf: MakeGguf, tmp_path: Path) -> None:
    path = make_gguf("llama")
    stored = values_of(path)["blk.0.attn_q.weight"]

    query = convert(path, tmp_path / "out")["model.layers.0.self_attn.q_proj.weight"]

    again = interleave(query.to(torch.float32).numpy(), HEADS)
    rounded = torch.from_numpy(stored).to(torch.bfloat16).to(torch.float32).numpy()
    np.testing.assert_array_equal(again, rounded)


@pytest.mark.parametrize("kind", [GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q8_0])
def test_codes_lie_beside_the_weights_in_the_same_order(
    make_gguf: MakeGguf, tmp_path: Path, kind: GGMLQuantizationType
) -> None:
    made = convert(make_gguf("llama", quantised=kind), tmp_path / "out")

    codes = ModelCodes(tmp_path / "out")
    found = [name for name in made if codes.of_layer(name.removesuffix(".weight"))]
    assert sorted(found) == sorted(
        name
        for name, weight in made.items()
        if weight.dim() == 2 and weight.shape[1] == HIDDEN  # not a width of 24
    )
    for name in found:
        (read,) = codes.of_layer(name.removesuffix(".weight"))
        assert torch.equal(read.widened(), made[name])


def test_a_file_without_quantised_tensors_has_no_codes(make_gguf: MakeGguf, tmp_path: Path) -> None:
    convert(make_gguf("llama"), tmp_path / "out")

    assert not list((tmp_path / "out").glob("*.codes"))


def test_rows_and_biases_of_qwen2_are_kept(make_gguf: MakeGguf, tmp_path: Path) -> None:
    path = make_gguf("qwen2", preparation="qwen2")
    stored = values_of(path)

    made = convert(path, tmp_path / "out")

    for kind in ("weight", "bias"):
        expected = torch.from_numpy(stored[f"blk.0.attn_q.{kind}"]).to(torch.bfloat16)
        assert torch.equal(made[f"model.layers.0.self_attn.q_proj.{kind}"], expected)
    assert made["lm_head.weight"].shape[1] == HIDDEN


def test_small_shards_and_their_index_cover_every_tensor(
    make_gguf: MakeGguf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.models.weights._SHARD_BYTES", 1000)

    made = convert(make_gguf(), tmp_path / "out")

    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text("utf-8"))
    files = {path.name for path in (tmp_path / "out").glob("*.safetensors")}
    assert len(files) > 1
    assert set(index["weight_map"].values()) == files
    assert index["weight_map"].keys() == made.keys()
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in made.values())
