from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.errors import RecipeError
from engine.training.native.recipe import NativeRecipe, load_native_recipe
from tests.unit.engine.training.native.small import native
from tests.unit.engine.training.tiny import RECIPE

RECIPES = sorted((Path(__file__).parents[5] / "configs" / "recipes").glob("*-eagle3.yaml"))


def write(path: Path, document: object) -> Path:
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("document", [RECIPE, [], {"head": "eagle3"}], ids=["ours", "list", "text"])
def test_other_recipes_are_left_to_our_own_trainer(tmp_path: Path, document: object) -> None:
    assert load_native_recipe(write(tmp_path / "r.yaml", document)) is None


@pytest.mark.parametrize("kind", ["eagle3", "peagle", "dflash"])
def test_vllms_drafters_are_known(tmp_path: Path, kind: str) -> None:
    recipe = load_native_recipe(write(tmp_path / "r.yaml", native(head={"kind": kind})))

    assert recipe is not None
    assert recipe.head.kind == kind


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({"head": {"inner_size": 8}}, "head.inner_size"),
        ({"head": {"positions": 0}}, "head.positions"),
        ({"head": {"layers": [1, 1]}}, "lists a layer twice"),
        ({"head": {"mask_token": 3}}, "eagle3 has none"),
        ({"train": {"epochs": 0}}, "train.epochs"),
        ({"train": {"steps": 3}}, "train.steps"),
        ({"export": {"window": 3}}, "only licence applies"),
    ],
)
def test_what_does_not_apply_is_refused(
    tmp_path: Path, sections: dict[str, Any], problem: str
) -> None:
    path = write(tmp_path / "r.yaml", native(**sections))

    with pytest.raises(RecipeError) as caught:
        load_native_recipe(path)

    assert problem in caught.value.problems[0]
    assert str(path) in caught.value.problems[0]


@pytest.mark.parametrize(("room", "expected"), [(None, 64), (32, 31), (65, 64)])
def test_documents_leave_room_for_the_token_that_the_worker_writes(
    room: int | None, expected: int
) -> None:
    vllm = {} if room is None else {"max_model_len": room}
    document = native(train={"sequence_tokens": 64}, engine={"vllm": vllm})

    assert NativeRecipe.model_validate(document).longest == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("eagle3", {"method": "eagle3"}),
        ("peagle", {"method": "eagle3", "parallel_drafting": True}),
        ("dflash", {"method": "dflash"}),
    ],
)
def test_a_finished_drafter_is_served_by_vllms_method(kind: str, expected: dict[str, Any]) -> None:
    recipe = NativeRecipe.model_validate(native(head={"kind": kind, "positions": 5}))

    config = recipe.head.drafter(Path("/head"))

    assert config == {**expected, "model": "/head", "num_speculative_tokens": 5}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_loads_and_has_its_files_name(path: Path) -> None:
    recipe = load_native_recipe(path)

    assert recipe is not None
    assert recipe.name == path.stem
    assert recipe.head.kind == "eagle3"
