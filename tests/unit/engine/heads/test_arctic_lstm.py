"""Arctic's LSTM speculators, both methods, in their published layout."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import HeadFileError
from engine.heads import TargetFacts, load_head
from tests.unit.engine.heads.conftest import HIDDEN, INNER, VOCAB, WriteFolder
from tests.unit.engine.heads.reference import (
    LstmReference,
    Reference,
    SumRnnReference,
    check_logits,
)

POSITIONS = 3
GATES = ("forget", "input", "cell", "output")

Case = tuple[dict[str, Any], dict[str, Tensor]]


def make_config(**fields: Any) -> dict[str, Any]:
    return {
        "base_model_name_or_path": "someone/some-model",
        "input_hidden_dim": HIDDEN,
        "inner_dim": str(INNER),
        "proj_dim": str(INNER),
        "emb_dim": str(INNER),
        "model_type": "mlp_speculator",
        "n_predict": POSITIONS,
        "scale_input": True,
        "tie_weights": True,
        "tie_lstm_embs": True,
        "transformers_version": "4.51.3",
        "vocab_size": VOCAB,
        "method": "sum_lstm",
        **fields,
    }


class Draws:
    """Draws reproducible tensors."""

    def __init__(self) -> None:
        self._draws = torch.Generator().manual_seed(5)

    def matrix(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._draws) / shape[-1] ** 0.5

    def norm(self, name: str, width: int) -> dict[str, Tensor]:
        return {
            f"{name}.weight": 1 + 0.3 * torch.randn(width, generator=self._draws),
            f"{name}.bias": 0.3 * torch.randn(width, generator=self._draws),
        }


def make_lstm(*, embeddings: tuple[str, ...] = ("forget",)) -> dict[str, Tensor]:
    draws = Draws()
    weights = {f"{gate}_emb.0.weight": draws.matrix(VOCAB, INNER) for gate in embeddings}
    for gate in GATES:
        weights[f"{gate}_proj.0.weight"] = draws.matrix(INNER, HIDDEN)
        weights[f"{gate}_proj.1.weight"] = draws.matrix(INNER, INNER)
    weights |= draws.norm("cell_ln.0", INNER) | draws.norm("state_ln.0", INNER)
    return weights | {"head.0.weight": draws.matrix(VOCAB, INNER) * 4}


def make_rnn(
    *,
    emb: int = 1,
    proj: int = 1,
    inner: tuple[int, ...] = (INNER,),
    tied: bool = True,
) -> dict[str, Tensor]:
    """Draw a sum_rnn with these numbers of layers and widths of the norms."""
    draws = Draws()
    weights: dict[str, Tensor] = {}
    width = inner[0]
    for position in range(1 if tied else POSITIONS):
        weights[f"emb.{position}.0.weight"] = draws.matrix(VOCAB, width)
        for layer in range(emb - 1):
            weights |= draws.norm(f"emb.{position}.{3 * layer + 1}", width)
            weights[f"emb.{position}.{3 * layer + 3}.weight"] = draws.matrix(width, width)
        weights |= draws.norm(f"ln.{position}.0", width)
        for layer, (before, after) in enumerate(pairwise(inner)):
            weights[f"ln.{position}.{3 * layer + 2}.weight"] = draws.matrix(after, before)
            weights |= draws.norm(f"ln.{position}.{3 * layer + 3}", after)
        weights[f"head.{position}.weight"] = draws.matrix(VOCAB, inner[-1]) * 4
    for position in range(2 if tied else POSITIONS):
        enters = HIDDEN if position == 0 else inner[-1]
        weights[f"proj.{position}.0.weight"] = draws.matrix(width, enters)
        for layer in range(proj - 1):
            weights |= draws.norm(f"proj.{position}.{3 * layer + 1}", width)
            weights[f"proj.{position}.{3 * layer + 3}.weight"] = draws.matrix(width, width)
    return weights


def prefixed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"speculator.{name}": tensor for name, tensor in weights.items()}


RNN = {"method": "sum_rnn", "tie_lstm_embs": False}
CASES: dict[str, Case] = {
    "lstm": (make_config(), make_lstm()),
    "lstm, sizes as numbers": (
        make_config(inner_dim=INNER, proj_dim=INNER, emb_dim=INNER),
        make_lstm(),
    ),
    "lstm, embeddings apart, not scaled": (
        make_config(tie_lstm_embs=False, scale_input=False),
        make_lstm(embeddings=GATES),
    ),
    "lstm, prefixed": (make_config(), prefixed(make_lstm())),
    "rnn": (make_config(**RNN), make_rnn()),
    "rnn, not tied": (make_config(**RNN, tie_weights=False), make_rnn(tied=False)),
    "rnn, all deep, not tied, prefixed": (
        make_config(
            **RNN,
            tie_weights=False,
            inner_dim=f"{INNER}.40",
            emb_dim=f"{INNER}.{INNER}",
            proj_dim=f"{INNER}.{INNER}.{INNER}",
        ),
        prefixed(make_rnn(emb=2, proj=3, inner=(INNER, 40), tied=False)),
    ),
}
REFERENCES: dict[str, type[Reference]] = {"sum_lstm": LstmReference, "sum_rnn": SumRnnReference}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_logits_match_the_formulas(
    write_folder: WriteFolder, target: TargetFacts, case: tuple[dict[str, Any], dict[str, Tensor]]
) -> None:
    config, weights = case
    reference = REFERENCES[config["method"]](
        weights,
        positions=POSITIONS,
        tied=config["tie_weights"],
        scaled=config["scale_input"],
    )

    check_logits(load_head(write_folder(config, weights), target), reference)


def test_the_default_method_is_sum_rnn(write_folder: WriteFolder, target: TargetFacts) -> None:
    config = make_config(tie_lstm_embs=False)
    del config["method"]

    assert load_head(write_folder(config, make_rnn()), target).config.kind == "mlp"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"inner_dim": "32.32"}, "expected one common size"),
        (
            {"emb_dim": "16"},
            "found inner_dim 32, proj_dim 32, emb_dim 16, expected one common size",
        ),
        ({"tie_weights": False}, "found tie_weights false"),
        ({"method": "sum_gru"}, "method: found 'sum_gru'"),
        ({"inner_dim": "32.x"}, "inner_dim: found '32.x'"),
        ({"inner_dim": "0"}, "inner_dim"),
        (RNN | {"proj_dim": "32.16"}, "expected proj_dim and emb_dim"),
    ],
)
def test_an_invalid_config_is_rejected(
    write_folder: WriteFolder, target: TargetFacts, fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(HeadFileError, match=rf"config.json: .*{problem}"):
        load_head(write_folder(make_config(**fields), make_lstm()), target)
