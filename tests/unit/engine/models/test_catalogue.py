import re

import pytest

from engine.models.catalogue import CATALOGUE, Model


@pytest.mark.parametrize("model", CATALOGUE.values(), ids=CATALOGUE)
def test_every_model_is_pinned_by_version_and_checksum(model: Model) -> None:
    assert CATALOGUE[model.name] is model
    assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
    assert model.size_bytes > 0
    assert model.licence == "Apache-2.0"
    for part in model.parts:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+", part.requirement)
