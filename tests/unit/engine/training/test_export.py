from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import TrainingError
from engine.heads import DraftHead, HeadConfig, TargetFacts, load_head
from engine.training.export import Facts, export_head
from engine.training.recipe import Recipe
from tests.unit.engine.heads.conftest import small_mlp
from tests.unit.engine.training.tiny import RECIPE

FIGURES: dict[str, Any] = {
    "tokens": 99,
    "all": {"acceptance_ratio": 0.25, "acceptance_length": 1.5, "survival": [0.4, 0.1]},
    "kinds": {"chat": {"acceptance_ratio": 0.2, "acceptance_length": 1.4, "survival": [0.3, 0.1]}},
}
FACTS = Facts(
    figures=FIGURES, training_tokens=12345, earlier_tokens=0, coverage_ratio=0.9, mark="digest"
)


def recipe(**export: Any) -> Recipe:
    return Recipe.model_validate(
        {
            **RECIPE,
            "folder": "/somewhere/private",
            "engine": {"model": "smollm2-135m", "cache_dir": "/somewhere/private"},
            "export": export,
        }
    )


@pytest.fixture
def head() -> DraftHead:
    config = small_mlp(vocab_size=50, draft_vocab_size=3, tokenizer_sha256="a" * 64)
    made: DraftHead = DraftHead.new(config, [1, 2, 7], seed=1)
    return made


def test_an_exported_head_is_loaded(tmp_path: Path, head: DraftHead) -> None:
    export_head(head, recipe(), FACTS, tmp_path / "head")

    target = TargetFacts(4, 50, "a" * 64, torch.float32, torch.device("cpu"))
    found = load_head(tmp_path / "head", target)
    assert found.vocabulary.ids is not None
    assert found.vocabulary.ids.tolist() == [1, 2, 7]
    for name, weight in head.weights.state_dict().items():
        assert torch.equal(found.weights.state_dict()[name], weight.bfloat16().float())
    assert found.config.card["evaluation"] == FIGURES
    assert found.config.card["licence"] == "Apache-2.0"


def test_the_exported_window_can_differ(tmp_path: Path) -> None:
    whole = HeadConfig(
        kind="gated", hidden_size=4, vocab_size=50, inner_size=4, positions=2, window=3
    )
    head = DraftHead.new(whole, seed=1)

    export_head(head, recipe(window=8), FACTS, tmp_path / "head")

    target = TargetFacts(4, 50, None, torch.float32, torch.device("cpu"))
    assert load_head(tmp_path / "head", target).config.window == 8
    assert head.config.window == 3
    assert "window: 8 text positions" in (tmp_path / "head/README.md").read_text()


def test_the_card_describes_the_head(tmp_path: Path, head: DraftHead) -> None:
    export_head(head, recipe(), FACTS, tmp_path)

    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\n")
    for line in (
        "license: apache-2.0",
        "- drafts 3 of 50 tokens, 90.0% of the text that it was trained on",
        "12,345 answer tokens. 24 steps of",
        "Digest of recipe and text: `digest`.",
        "| chat | 0.200 | 1.40 | 0.300 | 0.100 |",
        "| all | 0.250 | 1.50 | 0.400 | 0.100 |",
        "  learning_rate: 0.01",
    ):
        assert f"{line}\n" in card
    assert "a" * 64 in card
    assert "private" not in card


def test_a_head_that_is_too_large_is_rejected(tmp_path: Path, head: DraftHead) -> None:
    with pytest.raises(TrainingError, match=r"would take 0\.0 MB, but export\.most_mb is 0\.0001"):
        export_head(head, recipe(most_mb=0.0001), FACTS, tmp_path / "head")

    assert not (tmp_path / "head").exists()
