"""Looks at a model folder without loading the model or importing torch."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from engine.config import EngineSettings
from engine.models.catalogue import CATALOGUE
from engine.models.store import folder_of

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf")
_TOKENIZERS = ("tokenizer*.json", "tokenizer.model", "tekken.json", "vocab.*")
# Read from a folder of weights; other values name servers, object stores or no weights at all.
_FILE_FORMATS = (None, "auto", "hf", "pt", "safetensors")

ModelConfig = Mapping[str, JsonValue]
"""The config.json of a model."""


def find_model_folder(settings: EngineSettings) -> Path | None:
    """Return the model's folder, which need not exist; None for a Hugging Face id."""
    name = settings.model
    if name in CATALOGUE:
        return folder_of(CATALOGUE[name], cache_dir=settings.cache_dir)
    path = Path(name).expanduser()
    is_path = name.startswith(("/", "./", "../", "~")) or path.is_dir()
    return path if is_path or not _HUB_ID.fullmatch(name) else None


def find_model_problems(folder: Path, settings: EngineSettings) -> list[str]:
    """Return a line for each thing that keeps vLLM from loading the model in a folder."""
    if not folder.is_dir():
        return [f"engine.model: {settings.model} is not a folder"]
    problems = []
    try:
        read_model_config(folder)
    except (OSError, ValueError) as exc:
        problems.append(f"engine.model: {folder}/config.json: {exc}")
    options = settings.vllm
    reads_files = options.get("load_format") in _FILE_FORMATS
    if reads_files and not _has_any(folder, _WEIGHTS):
        problems.append(f"engine.model: no weights in {folder} ({', '.join(_WEIGHTS)})")
    needs_tokenizer = not (options.get("tokenizer") or options.get("skip_tokenizer_init"))
    if needs_tokenizer and not _has_any(folder, _TOKENIZERS):
        problems.append(f"engine.model: no tokenizer in {folder} ({', '.join(_TOKENIZERS)})")
    return problems


def read_model_config(folder: Path) -> ModelConfig:
    """Read a folder's config.json.

    Raises:
        OSError: It cannot be read.
        ValueError: It does not describe a model.
    """
    document = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(document, dict) or not {"architectures", "model_type"} & document.keys():
        raise ValueError("neither architectures nor model_type in it")
    return document


def _has_any(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(True for pattern in patterns for _ in folder.glob(pattern))
