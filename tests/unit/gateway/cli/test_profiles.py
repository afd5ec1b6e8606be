from argparse import ArgumentParser
from pathlib import Path

import pytest

from gateway.cli.profiles import DEFAULT, add_config_argument, find_file, find_profile
from gateway.errors import ConfigError

ROOT = Path(__file__).parents[4]


def test_a_packaged_profile_is_found_by_its_name() -> None:
    found = find_profile(DEFAULT)

    assert found.name == f"{DEFAULT}.yaml"
    assert found.is_file()


def test_a_packaged_recipe_is_found_by_its_name() -> None:
    found = find_file("smollm2-135m-lstm", "configs/recipes", kind="recipe")

    assert found == ROOT / "configs" / "recipes" / "smollm2-135m-lstm.yaml"


def test_a_file_is_found_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").touch()
    monkeypatch.chdir(tmp_path)

    assert find_profile("mine.yaml") == tmp_path / "mine.yaml"


def test_a_file_takes_precedence_over_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / DEFAULT).touch()
    monkeypatch.chdir(tmp_path)

    assert find_profile(DEFAULT) == tmp_path / DEFAULT


@pytest.mark.parametrize("name", ["nope", ""])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cpu-smollm2, gateway-remote"):
        find_profile(name or str(tmp_path))


def test_the_default_profile_exists() -> None:
    parser = ArgumentParser()
    add_config_argument(parser)

    assert parser.parse_args([]).config == "cpu-smollm2"
