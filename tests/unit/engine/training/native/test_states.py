from pathlib import Path

import pytest

from engine.config import EngineSettings
from engine.errors import TrainingError
from engine.training.native.states import count_states, extracting_profile, find_layers
from tests.unit.engine.training.tiny import write_target


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(write_target(tmp_path))  # two layers


def test_layers_of_the_recipe_are_kept(target: str) -> None:
    assert find_layers(target, [0, 2]) == ([0, 2], 2)


@pytest.mark.parametrize("chosen", [[3], [1, 1], None], ids=["beyond", "twice", "too few for 2"])
def test_layers_that_the_target_lacks_are_named(target: str, chosen: list[int] | None) -> None:
    with pytest.raises(TrainingError, match=r"head\.layers: the target has 2 layers"):
        find_layers(target, chosen)


def test_a_target_without_a_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="cannot read its config"):
        find_layers(str(tmp_path), None)


def test_the_worker_writes_states_and_keeps_the_recipes_options() -> None:
    engine = EngineSettings.model_validate({"model": "m", "vllm": {"dtype": "float32"}})

    profile = EngineSettings.model_validate(extracting_profile(engine, [1, 4], Path("/staging")))

    assert profile.vllm["dtype"] == "float32"
    assert "kv_transfer_config" in profile.vllm
    native = profile.speculation.native
    assert native is not None
    assert native.config["method"] == "extract_hidden_states"
    assert "[1, 4]" in str(native.config)


def test_only_files_with_states_count(tmp_path: Path) -> None:
    assert count_states(tmp_path) == 0

    (tmp_path / "hidden_states").mkdir()
    for name in ("hs_0.safetensors", "hs_11.safetensors", "hs_2.safetensors.lock"):
        (tmp_path / "hidden_states" / name).touch()

    assert count_states(tmp_path) == 2
