"""Loads a head from a folder in any known layout, and saves heads in our own."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import JsonValue
from safetensors.torch import save
from torch import Tensor

from engine.errors import HeadFileError, HeadInputError
from engine.heads.arctic_lstm import ArcticLstm
from engine.heads.config import FORMAT, HeadConfig
from engine.heads.head import DraftHead
from engine.heads.layout import VOCABULARY, Layout
from engine.heads.medusa import FasterDecodingMedusa, VllmMedusa
from engine.heads.mlp_speculator import MlpSpeculator
from engine.heads.own_format import OwnFormat
from engine.heads.stored import CONFIG_FILE, StoredWeights, parse_config, read_config
from engine.heads.target import SharedTables, TargetFacts, check_tables, check_target
from engine.heads.vocabulary import Vocabulary
from engine.heads.weights import HeadWeights

_WEIGHTS_FILE = "model.safetensors"
_PUBLISHED = "mlp_speculator"
_MEDUSA = "medusa"

# The first layout that recognises a config.json reads it.
_LAYOUTS: tuple[
    tuple[Callable[[Mapping[str, Any]], bool], Callable[[Path, bytes], Layout]], ...
] = (
    (lambda document: document.get("format") == FORMAT, OwnFormat),
    (
        lambda document: (
            document.get("model_type") == _PUBLISHED and "input_hidden_dim" in document
        ),
        ArcticLstm,
    ),
    (lambda document: document.get("model_type") == _PUBLISHED, MlpSpeculator),
    (lambda document: document.get("model_type") == _MEDUSA, VllmMedusa),
    (lambda document: "medusa_num_heads" in document, FasterDecodingMedusa),
)


def is_head(folder: Path) -> bool:
    """Tell whether a folder holds a completely saved head; config.json is written last."""
    return (folder / CONFIG_FILE).is_file()


def read_head_config(folder: Path) -> HeadConfig:
    """Return the configuration of the head in a folder, without reading its weights.

    Raises:
        HeadFileError: The folder is missing or damaged, or holds no head in a known layout.
    """
    return _recognise(folder / CONFIG_FILE, read_config(folder)).config


def load_head(
    folder: Path,
    target: TargetFacts,
    *,
    embedding: Tensor | None = None,
    output: Tensor | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> DraftHead:
    """Load a head, ready to draft.

    Args:
        folder: Holds config.json and the weights, in our format or a published layout.
        target: The model to draft for.
        embedding: The target's input embeddings, (at least vocab_size, hidden_size), on `device`,
            for a head that shares them; kept, not copied.
        output: The weight of the target's output layer, likewise.
        dtype: Dtype of the head's weights; by default the target's.
        device: Where the head runs; by default the target's device.

    Raises:
        HeadFileError: The folder is missing or damaged, or holds no head in a known layout.
        HeadTargetError: The head was made for another target, or a table that it shares is missing.
    """
    path = folder / CONFIG_FILE
    content = read_config(folder)
    layout = _recognise(path, content)
    config, shared = layout.config, SharedTables(embedding, output)
    check_target(config, target, name=str(path))
    check_tables(config, shared, name=str(path))
    with StoredWeights(folder, prefix=layout.prefix, files=layout.files) as stored:
        tensors = layout.read(stored)
        stored.finish()
    try:
        vocabulary = Vocabulary(config, tensors.pop(VOCABULARY, None))
    except HeadInputError as exc:
        raise HeadFileError(f"{folder}: {VOCABULARY}: {exc}") from exc
    with torch.device("meta"):
        weights = HeadWeights(config)
    options = {"dtype": dtype or target.dtype, "device": device or target.device}
    weights.load_state_dict(
        {name: tensor.to(**options) for name, tensor in tensors.items()}, assign=True
    )
    head = DraftHead(config, weights, vocabulary.to(options["device"]), shared)
    head.requires_grad_(False)
    head.eval()
    head.prepare()
    return head


def save_head(head: DraftHead, folder: Path, *, card: Mapping[str, JsonValue]) -> None:
    """Write a head in our format; deterministic for the same head and card.

    Weights are stored in bfloat16. Each file is replaced atomically; config.json comes last.

    Args:
        head: The head to save.
        folder: Created if missing; files of the same names are replaced.
        card: How the head was made and its measured quality.

    Raises:
        HeadInputError: A weight is NaN or infinite; nothing is written.
        HeadFileError: The folder cannot be written.
    """
    tensors = {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
        for name, tensor in head.weights.state_dict().items()
    }
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise HeadInputError(f"{name}: found NaN or infinity, expected finite weights")
    if head.vocabulary.ids is not None:
        tensors[VOCABULARY] = head.vocabulary.ids.to("cpu", torch.int32)
    config = head.config.model_copy(update={"card": dict(card)})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / _WEIGHTS_FILE, save(tensors))
        _write(folder / CONFIG_FILE, f"{config.model_dump_json(indent=2)}\n".encode())
    except OSError as exc:
        raise HeadFileError(f"{folder}: cannot be written: {exc}") from exc


def _recognise(path: Path, content: bytes) -> Layout:
    document = parse_config(path, content)
    for is_mine, open_layout in _LAYOUTS:
        if is_mine(document):
            return open_layout(path, content)
    found = {key: document.get(key) for key in ("format", "model_type")}
    raise HeadFileError(
        f"{path}: unknown kind of head: found {found}, expected format {FORMAT!r}, model_type "
        f"{_PUBLISHED!r} or {_MEDUSA!r}, or medusa_num_heads"
    )


def _write(path: Path, content: bytes) -> None:
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_bytes(content)
    os.replace(scratch, path)
