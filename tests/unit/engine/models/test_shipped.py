from pathlib import Path

import pytest

from engine.models import shipped, shipped_head


def test_a_head_is_found_by_its_targets_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "_FOLDER", tmp_path)
    (tmp_path / "some-model").mkdir()
    (tmp_path / "some-model" / "config.json").touch()
    (tmp_path / "empty").mkdir()

    assert shipped_head("some-model") == tmp_path / "some-model"
    assert shipped_head("empty") is None
    assert shipped_head("org/other") is None


def test_a_models_own_folder_is_no_head(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()

    assert shipped_head(str(tmp_path)) is None
