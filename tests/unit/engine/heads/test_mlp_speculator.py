"""IBM's and Arctic's MLP speculators, in their published layout."""

from typing import Any

import pytest
import torch
from torch import Tensor

from engine.heads import TargetFacts, load_head
from tests.unit.engine.heads.conftest import HIDDEN, INNER, VOCAB, WriteFolder
from tests.unit.engine.heads.reference import MlpReference, check_logits

POSITIONS = 3


def make_config(**fields: Any) -> dict[str, Any]:
    return {
        "emb_dim": HIDDEN,
        "inner_dim": INNER,
        "model_type": "mlp_speculator",
        "n_predict": POSITIONS,
        "scale_input": False,
        "tie_weights": False,
        "transformers_version": "4.38.2",
        "vocab_size": VOCAB,
        **fields,
    }


def make_weights(inner: int = INNER, *, stored: range = range(POSITIONS)) -> dict[str, Tensor]:
    """Draw a checkpoint; tied weights exist for `stored` positions only, proj for one more."""
    draws = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draws) / shape[-1] ** 0.5

    weights = {}
    for position in stored:
        weights[f"emb.{position}.weight"] = draw(VOCAB, inner)
        weights[f"head.{position}.weight"] = draw(VOCAB, inner) * 4
        weights[f"ln.{position}.weight"] = 1 + draw(inner)
        weights[f"ln.{position}.bias"] = draw(inner)
    for position in range(min(POSITIONS, len(stored) + 1)):
        weights[f"proj.{position}.weight"] = draw(inner, HIDDEN if position == 0 else inner)
    return weights


TIED = {"tie_weights": True}
CASES = {
    "ibm": (make_config(), make_weights()),
    "ibm, inner_dim 0": (make_config(inner_dim=0), make_weights(HIDDEN)),
    "arctic, tied, one stored": (
        make_config(**TIED, scale_input=True),
        make_weights(stored=range(1)),
    ),
    "prefixed": (
        make_config(scale_input=True),
        {f"speculator.{name}": tensor for name, tensor in make_weights().items()},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_logits_match_the_formulas(
    write_folder: WriteFolder, target: TargetFacts, case: tuple[dict[str, Any], dict[str, Tensor]]
) -> None:
    config, weights = case
    reference = MlpReference(
        weights,
        positions=POSITIONS,
        tied=config["tie_weights"],
        scaled=config["scale_input"],
    )

    check_logits(load_head(write_folder(config, weights), target), reference)
