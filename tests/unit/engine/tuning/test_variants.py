import json
from pathlib import Path

import pytest

from engine.config import EngineSettings, load_settings
from engine.errors import ConfigError
from engine.tuning.variants import Variant, find_variants, pick

NATIVE = {"method": "eagle3", "model": "drafter", "num_speculative_tokens": 4}


def settings(**engine: object) -> EngineSettings:
    return load_settings(None, environ={}, overrides=engine)  # type: ignore[arg-type]  # JSON


def names(found: list[Variant]) -> list[str]:
    return [variant.name for variant in found]


def test_a_model_with_a_shipped_head_has_four(tmp_path: Path) -> None:
    assert names(find_variants(settings(model="smollm2-135m"), None)) == [
        "off",
        "suffix",
        "head",
        "suffix+head",
    ]


def test_another_model_has_the_index() -> None:
    assert names(find_variants(settings(model="org/model"), None)) == ["off", "suffix"]


def test_the_profiles_own_drafter_is_at_hand() -> None:
    profile = settings(
        model="org/model",
        speculation={"sources": ["native"], "native": {"config": NATIVE}},
    )

    found = find_variants(profile, None)

    assert names(found) == ["off", "suffix", "native", "suffix+native"]
    assert found[3].speculation(profile) == {
        "sources": ["suffix", "native"],
        "native": {"config": NATIVE},
    }


def test_layers_for_multi_token_prediction_are_found_in_the_models_files(tmp_path: Path) -> None:
    config = {"model_type": "deepseek", "num_nextn_predict_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")

    found = find_variants(settings(model=str(tmp_path)), tmp_path)

    assert found[2].native == {"method": "mtp", "num_speculative_tokens": 1}


def test_the_section_of_a_variant_keeps_the_profiles_other_settings() -> None:
    profile = settings(speculation={"sources": ["suffix", "head"], "max_draft_tokens": 7})

    assert Variant(("suffix",)).speculation(profile) == {
        "sources": ["suffix"],
        "max_draft_tokens": 7,
    }


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        pytest.param(["eagle"], "eagle is not at hand; there are head, off", id="unknown"),
        pytest.param(["off"], "two at least", id="too few"),
    ],
)
def test_a_wrong_choice_is_one_line(asked: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        pick(find_variants(settings(), None), asked)

    assert len(refused.value.problems) == 1


def test_those_that_were_asked_for_are_compared() -> None:
    found = pick(find_variants(settings(), None), ["suffix+head", "off"])

    assert names(found) == ["off", "suffix+head"]
