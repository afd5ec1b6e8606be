"""Writes the tensors of a GGUF file as bfloat16 safetensors under their Hugging Face names.

Beside each shard lies a file with the codes of its quantised tensors, `model-N.codes`: safetensors,
too, with the names `<tensor>/codes`, `<tensor>/scales` and `<tensor>/least`. vLLM does not read it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file

from engine.errors import ModelError
from engine.models.architecture import LAYER_MODULES, TOP_TENSORS
from engine.models.gguf_file import GgufFile

# Bounds the memory of a conversion: one shard with its codes, plus one tensor in float32.
_SHARD_BYTES = 1 << 30


def write_weights(source: GgufFile, folder: Path, *, report: Callable[[str], None]) -> None:
    """Write `model-N.safetensors` shards and their index into `folder`.

    Raises:
        ModelError: The file contains an unknown tensor.
    """
    shard: dict[str, torch.Tensor] = {}
    codes: dict[str, npt.NDArray[Any]] = {}
    held_bytes = total_bytes = 0
    weight_map: dict[str, str] = {}

    def flush() -> None:
        nonlocal held_bytes
        stem = f"model-{len(set(weight_map.values())) + 1:05}"
        file_name = f"{stem}.safetensors"
        save_file(shard, folder / file_name, metadata={"format": "pt"})
        if codes:
            save_arrays(codes, folder / f"{stem}.codes")
            codes.clear()
        weight_map.update(dict.fromkeys(shard, file_name))
        report(f"wrote {file_name}, {total_bytes / 1e6:.0f} MB of weights so far")
        shard.clear()
        held_bytes = 0

    for read in source.tensors():
        name = rename_tensor(read.name)
        tensor = torch.from_numpy(_restore_rows(source, read.name, read.values)).to(torch.bfloat16)
        shard[name] = tensor
        for kind, values in ({} if read.codes is None else read.codes.arrays()).items():
            restored = _restore_rows(source, read.name, values)
            codes[f"{name}/{kind}"] = np.ascontiguousarray(restored)
        held_bytes += tensor.nbytes
        total_bytes += tensor.nbytes
        if held_bytes >= _SHARD_BYTES:
            flush()
    if shard:
        flush()
    index = {"metadata": {"total_size": total_bytes}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def rename_tensor(gguf_name: str) -> str:
    """Return the Hugging Face name of a GGUF tensor.

    Raises:
        ModelError: The name is unknown; without the tensor the model would produce nonsense.
    """
    if gguf_name in TOP_TENSORS:
        return TOP_TENSORS[gguf_name]
    match gguf_name.split("."):
        case ["blk", layer, module, ("weight" | "bias") as kind] if module in LAYER_MODULES:
            return f"model.layers.{layer}.{LAYER_MODULES[module]}.{kind}"
    raise ModelError(f"unknown tensor {gguf_name}")


def _restore_rows(source: GgufFile, gguf_name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Undo GGUF's rotary order, which interleaves the two halves of each head's rows."""
    key = next(
        (
            key
            for module, key in source.architecture.rotary_heads.items()
            if f".{module}." in gguf_name
        ),
        None,
    )
    if key is None:
        return values
    heads = source.dimension(key)
    paired = values.reshape(heads, values.shape[0] // heads // 2, 2, *values.shape[1:])
    return paired.swapaxes(1, 2).reshape(values.shape)
