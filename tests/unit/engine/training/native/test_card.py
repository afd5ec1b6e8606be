import yaml

from engine.config import EngineSettings
from engine.training.native.card import write_card
from engine.training.native.recipe import NativeRecipe
from tests.unit.engine.training.native.small import native


def test_the_card_says_how_to_serve_the_drafter_and_how_good_it_is() -> None:
    recipe = NativeRecipe.model_validate(native())

    card = write_card(recipe, {"full_acc_0_epoch": 0.5}, licence="Apache-2.0")

    _, front, text = card.split("---\n", 2)
    assert yaml.safe_load(front)["license"] == "apache-2.0"
    profile = yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])
    assert EngineSettings.model_validate(profile["engine"]).speculation.native is not None
    assert "- full_acc_0_epoch: 0.5" in text
