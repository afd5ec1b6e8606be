from pathlib import Path

import pytest

from bench.engine.methods import write_profile
from bench.head.methods import find_head, methods_of_head
from engine.config import EngineSettings, load_settings
from engine.errors import HeadError

PRICES = {"step_cost": [[1, 15.0], [8, 18.0]], "head": {"pass_cost": [[1, 2.0]]}}


def settings(**speculation: object) -> EngineSettings:
    return EngineSettings.model_validate(
        {"model": "a-model-without-head", "speculation": speculation}
    )


def test_a_model_without_a_head_is_a_clear_error() -> None:
    with pytest.raises(HeadError, match="no head ships for a-model-without-head; name a folder"):
        find_head(settings(), None)


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(HeadError, match="nowhere is no folder"):
        find_head(settings(), tmp_path / "nowhere")


def test_the_named_head_wins_over_the_profiles(tmp_path: Path) -> None:
    named, configured = tmp_path / "named", tmp_path / "configured"
    for folder in (named, configured):
        folder.mkdir()
    given = settings(head={"path": str(configured)})

    assert find_head(given, named) == named
    assert find_head(given, None) == configured


def test_the_head_alone_drafts_at_the_profiles_prices(tmp_path: Path) -> None:
    native = {"config": {"method": "ngram", "num_speculative_tokens": 4}}
    given = settings(sources=["suffix", "native"], native=native, **PRICES)

    none, head, _ = methods_of_head(given, tmp_path)

    assert (none.name, none.speculation["sources"], none.is_ours) == ("none", [], False)
    assert (head.name, head.speculation["sources"]) == ("head", ["head"])
    assert head.speculation["native"] is None
    assert head.speculation["step_cost"] == PRICES["step_cost"]


def test_where_acceptance_is_measured_three_tokens_cost_nothing(tmp_path: Path) -> None:
    given = settings(**PRICES | {"head": {"max_draft_tokens": 5}})
    profile = tmp_path / "profile.yaml"
    always = methods_of_head(given, tmp_path)[-1]

    write_profile(profile, given, always)
    loaded = load_settings(profile, environ={}).speculation

    assert (always.name, loaded.sources) == ("head_always", ("head",))
    assert (loaded.max_draft_tokens, loaded.head.max_draft_tokens) == (3, 3)
    assert loaded.fixed_price == 0.01
    assert loaded.head.path == tmp_path
