from pathlib import Path

import pytest

from engine.config import EngineSettings
from engine.errors import ModelError
from engine.models.catalogue import CATALOGUE
from engine.models.resolve import ResolvedModel, resolve_model
from engine.models.store import folder_of


def never_fetch(requirement: str, *, into: Path) -> Path:
    raise AssertionError(f"asked for {requirement} into {into}")


def resolve(**values: object) -> ResolvedModel:
    settings = EngineSettings.model_validate(values)
    return resolve_model(settings, fetch=never_fetch, report=lambda _: None)


def test_a_catalogue_name_means_the_cached_folder(tmp_path: Path) -> None:
    folder = folder_of(CATALOGUE["smollm2-135m"], cache_dir=tmp_path)
    folder.mkdir(parents=True)

    model = resolve(model="smollm2-135m", cache_dir=tmp_path)

    assert model == ResolvedModel(str(folder), "smollm2-135m", is_local=True)


@pytest.mark.parametrize("name", ["/no/such/folder", "./no-such-folder", "~/no-such-folder"])
def test_a_missing_path_is_not_an_id(name: str) -> None:
    with pytest.raises(ModelError, match="is not a folder"):
        resolve(model=name)
