from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.errors import RecipeError
from engine.training.native.recipe import load_native_recipe
from engine.training.recipe import Recipe, load_recipe, load_recipes
from tests.unit.engine.training.tiny import RECIPE

ALL = sorted((Path(__file__).parents[4] / "configs" / "recipes").glob("*.yaml"))
RECIPES = [path for path in ALL if load_native_recipe(path) is None]


def changed(**sections: dict[str, Any]) -> dict[str, Any]:
    document = {**RECIPE, "engine": {"model": "smollm2-135m"}}
    return document | {name: {**document.get(name, {}), **new} for name, new in sections.items()}


def write(path: Path, document: object) -> Path:
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


ANSWER_TOKENS = 250
"""Of an answer to a prompt from a file, on average."""


def prompts_of(recipe: Recipe) -> int:
    files = () if recipe.data is None else recipe.data.files
    return sum(len(file.read_text("utf-8").splitlines()) for file in files)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_loads_and_has_its_files_name(path: Path) -> None:
    recipe: Recipe | None = load_recipe(path)

    assert recipe is not None
    assert recipe.name == path.stem
    assert recipe.head.kind == ("lstm" if path.stem.endswith("-lstm") else "gated")
    tokens = 0
    while recipe is not None:
        tokens += recipe.text.tokens + ANSWER_TOKENS * prompts_of(recipe)
        first = recipe.train.start_from
        recipe = None if first is None else load_recipe(path.with_name(f"{first}.yaml"))
    assert tokens >= 400_000


@pytest.mark.parametrize(
    ("window", "said", "expected"), [(0, {}, 0), (6, {}, 6), (6, {"max_prompt_tokens": 9}, 9)]
)
def test_prompts_have_the_windows_rows_by_default(
    window: int, said: dict[str, int], expected: int
) -> None:
    document = changed(head={"kind": "gated", "window": window}, hidden=said)

    assert Recipe.model_validate(document).prompt_rows == expected


def test_recipes_load_with_those_that_they_build_on(tmp_path: Path) -> None:
    for name, first in (("a", "missing"), ("b", "a"), ("c", "b")):
        document = {**changed(train={"start_from": first}), "name": name}
        write(tmp_path / f"{name}.yaml", document)

    assert [recipe.name for recipe in load_recipes(tmp_path / "c.yaml")] == ["a", "b", "c"]


def test_cyclic_recipes_are_rejected(tmp_path: Path) -> None:
    for name, first in (("a", "b"), ("b", "a")):
        write(tmp_path / f"{name}.yaml", {**changed(train={"start_from": first}), "name": name})

    with pytest.raises(RecipeError) as caught:
        load_recipes(tmp_path / "a.yaml")

    assert "starts from itself" in caught.value.problems[0]


def test_xdg_cache_home_moves_runs_and_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")

    found = load_recipe(write(tmp_path / "r.yaml", changed()))
    chosen = load_recipe(write(tmp_path / "r.yaml", {**changed(), "folder": "/runs"}))

    assert found.run_folder == Path("/caches/specgate/training/tiny")
    assert found.engine.cache_dir == Path("/caches/specgate")
    assert chosen.run_folder == Path("/runs/tiny")


def test_a_card_shows_no_paths_of_this_machine() -> None:
    document = {**changed(engine={"cache_dir": "/private", "port": 1}), "folder": "/private"}

    card = Recipe.model_validate(document).card()

    assert card["engine"] == {"model": "smollm2-135m"}
    assert card["head"] == RECIPE["head"]
    assert "private" not in str(card)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (changed(head={"layers": 2}), r"head\.layers: Extra inputs are not permitted"),
        (changed(head={"kind": "rnn"}), r"head\.kind: Input should be"),
        (changed(head={"vocab_size": 9}), "not allowed in a recipe: vocab_size"),
        ({**changed(), "head": "lstm"}, "head: Input should be"),
        (changed(train={"steps": 0}), r"train\.steps: Input should be greater than or equal to 1"),
        (changed(train={"position_weights": [1, 1]}), "expected one for each of head.positions"),
        ({**changed(), "text": {"tokens": 1}}, "text.tokens and text.prompts require each other"),
        ("a text", "Input should be"),
    ],
    ids=["unknown", "kind", "target", "shape", "bound", "weights", "missing", "text"],
)
def test_problems_are_named(tmp_path: Path, document: object, problem: str) -> None:
    with pytest.raises(RecipeError, match=problem):
        load_recipe(write(tmp_path / "r.yaml", document))


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("a: [", encoding="utf-8")

    for path in (tmp_path / "r.yaml", tmp_path / "missing.yaml"):
        with pytest.raises(RecipeError, match=f"{path}: cannot be read"):
            load_recipe(path)
