"""Medusa's heads, in the layouts of FasterDecoding and vLLM."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from engine.errors import HeadFileError, HeadTargetError
from engine.heads import DraftHead, TargetFacts, load_head, read_head_config
from tests.unit.engine.heads.conftest import HIDDEN, VOCAB, MakeHead, WriteFolder

HEADS, LAYERS = 3, 2
FASTER_DECODING = {
    "base_model_name_or_path": "lmsys/vicuna-7b-v1.3",
    "medusa_num_heads": HEADS,
    "medusa_num_layers": LAYERS,
    "transformers_version": "4.31.0",
}
VLLM = {
    "architectures": ["MedusaModel"],
    "hidden_size": HIDDEN,
    "model_type": "medusa",
    "num_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "vocab_size": VOCAB,
}
# In no order, as lists of the most frequent tokens are.
TOKENS = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(3))[:40]


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) / shape[-1] ** 0.5


def numbered(*, heads: int = HEADS, prefix: str = "") -> dict[str, Tensor]:
    """Return weights under FasterDecoding's names."""
    tensors = {}
    for head in range(heads):
        for layer in range(LAYERS):
            name, seed = f"{prefix}{head}.{layer}.linear", 10 * head + layer
            tensors[f"{name}.weight"] = draw(HIDDEN, HIDDEN, seed=seed)
            tensors[f"{name}.bias"] = draw(HIDDEN, seed=seed + 100)
        tensors[f"{prefix}{head}.{LAYERS}.weight"] = 4 * draw(VOCAB, HIDDEN, seed=10 * head + 9)
    return tensors


def spelt_out(*, biased: bool = False) -> dict[str, Tensor]:
    """Return the same weights under vLLM's names, by default without biases, as vLLM has them."""
    tensors = {}
    for name, tensor in numbered().items():
        head, part, *_, kind = name.split(".")
        if kind == "bias" and not biased:
            continue
        ours = f"lm_heads.{head}" if int(part) == LAYERS else f"blocks.{head}.layers.{part}"
        tensors[f"{ours}.{kind}"] = tensor
    return tensors


def truncated(tensors: dict[str, Tensor], *, cut: bool) -> dict[str, Tensor]:
    """Add a token map; with `cut` the output layers have the rows of these tokens only."""
    rows = {
        name: tensor[TOKENS].contiguous()
        for name, tensor in tensors.items()
        if cut and name.startswith("lm_head")
    }
    return {**tensors, **rows, "token_map": TOKENS}


def formulas(
    hidden: Tensor,
    *,
    biased: bool = True,
    rows: Tensor | None = None,
    tokens: Tensor | None = None,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return the drafts and their probabilities, (m, heads), from the formulas in float64."""
    weights = {name: tensor.double() for name, tensor in numbered().items()}
    drafts, confidences = [], []
    for head in range(HEADS):
        x = hidden.double()
        for layer in range(LAYERS):
            weight, bias = (weights[f"{head}.{layer}.linear.{part}"] for part in ("weight", "bias"))
            x = x + functional.silu(x @ weight.T + (bias if biased else 0))
        table = weights[f"{head}.{LAYERS}.weight"] if rows is None else rows.double()
        logits = torch.full((len(hidden), VOCAB), float("-inf"), dtype=torch.float64)
        drafted = torch.arange(VOCAB) if tokens is None else tokens
        logits[:, drafted] = scale * (x @ table[drafted].T)
        confidence, token = logits.softmax(-1).max(-1)
        drafts.append(token)
        confidences.append(confidence)
    return torch.stack(drafts, 1), torch.stack(confidences, 1).float()


def check_drafts(head: DraftHead, **facts: Any) -> None:
    hidden = draw(12, HIDDEN, seed=1) * HIDDEN**0.5
    expected, confidence = formulas(hidden, **facts)

    # Whatever token was sampled.
    for sampled in (torch.arange(12), torch.full((12,), VOCAB - 1)):
        found = head.propose(hidden, sampled, HEADS)
        assert found[0].tolist() == expected.tolist()
        torch.testing.assert_close(found[1], confidence, atol=1e-4, rtol=1e-3)
    assert len(set(expected.flatten().tolist())) > 10


LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, Tensor], dict[str, Any]]] = {
    "FasterDecoding": (FASTER_DECODING, numbered(), {}),
    "FasterDecoding, prefixed": (FASTER_DECODING, numbered(prefix="medusa_heads."), {}),
    "FasterDecoding, fewer heads than stored": (
        {**FASTER_DECODING, "medusa_num_heads": 2},
        numbered(),
        {},
    ),
    "vLLM": (VLLM, spelt_out(), {"biased": False}),
    "vLLM, with biases": (VLLM, spelt_out(biased=True), {}),
    "vLLM, FasterDecoding's names": (
        {
            **{key: value for key, value in VLLM.items() if not key.startswith("num_")},
            "medusa_num_heads": HEADS,
            "medusa_num_layers": LAYERS,
        },
        numbered(),
        {},
    ),
    "vLLM, scaled": (
        {**VLLM, "logit_scale": 0.25},
        spelt_out(),
        {"biased": False, "scale": 0.25},
    ),
    "vLLM, truncated": (
        {**VLLM, "truncated_vocab_size": 40},
        truncated(spelt_out(), cut=False),
        {"biased": False, "tokens": TOKENS},
    ),
    "vLLM, truncated and cut": (
        {**VLLM, "truncated_vocab_size": 40},
        truncated(spelt_out(), cut=True),
        {"biased": False, "tokens": TOKENS},
    ),
}


@pytest.mark.parametrize(("config", "weights", "facts"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_published_head_drafts_as_the_formulas_say(
    write_folder: WriteFolder,
    target: TargetFacts,
    config: dict[str, Any],
    weights: dict[str, Tensor],
    facts: dict[str, Any],
) -> None:
    check_drafts(load_head(write_folder(config, weights), target), **facts)


@pytest.mark.parametrize("is_short", [False, True], ids=["whole", "truncated"])
@pytest.mark.parametrize("stored", [None, "lm_heads.0.weight", "lm_head.weight"])
def test_the_original_output_layer_is_the_targets(
    write_folder: WriteFolder,
    target: TargetFacts,
    tables: dict[str, Tensor],
    stored: str | None,
    is_short: bool,
) -> None:
    layers = {name: tensor for name, tensor in spelt_out().items() if name.startswith("blocks.")}
    output = {} if stored is None else {stored: tables["output"][:VOCAB].contiguous()}
    config = {**VLLM, "original_lm_head": True}
    if is_short:
        output = truncated(output, cut=True)
        config["truncated_vocab_size"] = len(TOKENS)

    head = load_head(write_folder(config, layers | output), target, **tables)

    assert head.config.share_output
    tokens = TOKENS if is_short else None
    check_drafts(head, biased=False, rows=tables["output"], tokens=tokens)


@pytest.mark.parametrize("name", ["medusa_lm_head.pt", "medusa_lm_head.safetensors"])
def test_heads_beside_a_whole_model_are_found(
    tmp_path: Path, target: TargetFacts, name: str
) -> None:
    config = {**FASTER_DECODING, "model_type": "llama", "hidden_size": 7, "vocab_size": 7}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file({"model.norm.weight": torch.ones(7)}, tmp_path / "model.safetensors")
    (torch.save if name.endswith(".pt") else save_file)(numbered(), tmp_path / name)

    check_drafts(load_head(tmp_path, target))


def test_the_configuration_is_known_before_the_weights_are_read(write_folder: WriteFolder) -> None:
    config = read_head_config(write_folder(FASTER_DECODING, numbered(heads=5)))

    assert (config.kind, config.positions, config.residual_layers) == ("medusa", 5, LAYERS)
    assert (config.hidden_size, config.vocab_size) == (HIDDEN, VOCAB)


def without(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    return {other: tensor for other, tensor in tensors.items() if other != name}


SHORT = {**VLLM, "truncated_vocab_size": 40}
INVALID: dict[str, tuple[dict[str, Any], dict[str, Tensor], str]] = {
    "number of heads missing": (
        {key: value for key, value in VLLM.items() if key != "num_heads"},
        spelt_out(),
        "config.json: num_heads: .*Field required",
    ),
    "no heads": ({**FASTER_DECODING, "medusa_num_heads": 0}, numbered(), "medusa_num_heads: found"),
    "fewer heads than said": (
        {**FASTER_DECODING, "medusa_num_heads": 4},
        numbered(),
        "found medusa_num_heads 4, expected at most 3",
    ),
    "fewer heads than said, vLLM": (
        {**VLLM, "num_heads": 4},
        spelt_out(),
        "found no weight blocks.3.layers.0.weight",
    ),
    "more heads than said, vLLM": (
        {**VLLM, "num_heads": 2},
        spelt_out(),
        "do not belong to such a head: blocks.2.layers.0.weight",
    ),
    "another number of layers": (
        {**FASTER_DECODING, "medusa_num_layers": 4},
        numbered(),
        r"found no weight 0.4.weight; found 0.0.linear.bias",
    ),
    "a missing output layer": (
        VLLM,
        without(spelt_out(), "lm_heads.1.weight"),
        "found no weight lm_heads.1.weight",
    ),
    "a missing output layer, FasterDecoding": (
        {**FASTER_DECODING, "medusa_num_heads": 1},
        without(numbered(), "1.2.weight"),
        "do not belong to such a head: 1.0.linear.bias",
    ),
    "a missing layer": (
        FASTER_DECODING,
        without(numbered(), "1.0.linear.weight"),
        "found no weight 1.0.linear.weight",
    ),
    "shape of a layer": (
        VLLM,
        spelt_out() | {"blocks.1.layers.0.weight": torch.ones(HIDDEN, 3)},
        r"blocks.1.layers.0.weight: found shape \(48, 3\), expected \(48, 48\)",
    ),
    "shape of an output layer": (
        FASTER_DECODING,
        numbered() | {"2.2.weight": torch.ones(5, HIDDEN)},
        r"2.2.weight: found shape \(5, 48\), expected \(90, 48\)",
    ),
    "a vector for the first output layer": (
        FASTER_DECODING,
        numbered() | {"0.2.weight": torch.ones(5)},
        r"0.2.weight: found shape \(5,\), expected \(vocabulary, hidden size\)",
    ),
    "not finite": (
        FASTER_DECODING,
        numbered() | {"0.0.linear.bias": torch.full((HIDDEN,), float("nan"))},
        "0.0.linear.bias: found NaN",
    ),
    "no token map": (SHORT, spelt_out(), "found no weight token_map"),
    "a token map of another size": (
        SHORT,
        spelt_out() | {"token_map": TOKENS[:39]},
        r"token_map: found shape \(39,\), expected \(40,\)",
    ),
    "a token twice": (
        SHORT,
        spelt_out() | {"token_map": torch.cat([TOKENS[:39], TOKENS[:1]])},
        "token_map: found a token twice",
    ),
    "a token out of range": (
        SHORT,
        spelt_out() | {"token_map": TOKENS + VOCAB},
        "token_map: found .* expected 0 to 89",
    ),
    "a token map that the config lacks": (
        VLLM,
        truncated(spelt_out(), cut=False),
        "do not belong to such a head: token_map",
    ),
    "a larger draft vocabulary": (
        {**VLLM, "truncated_vocab_size": 91},
        spelt_out(),
        "draft_vocab_size 91 exceeds vocab_size 90",
    ),
    "the target's output layer, scaled": (
        {**VLLM, "original_lm_head": True, "logit_scale": 2.0},
        spelt_out(),
        "found original_lm_head with logit_scale 2.0, expected 1",
    ),
}


@pytest.mark.parametrize(("config", "weights", "problem"), INVALID.values(), ids=INVALID)
def test_an_invalid_head_is_rejected(
    write_folder: WriteFolder,
    target: TargetFacts,
    tables: dict[str, Tensor],
    config: dict[str, Any],
    weights: dict[str, Tensor],
    problem: str,
) -> None:
    folder = write_folder(config, weights)

    with pytest.raises(HeadFileError, match=problem):
        load_head(folder, target, **tables)


@pytest.mark.parametrize(
    ("config", "weights"), [(FASTER_DECODING, numbered()), (VLLM, spelt_out())], ids=["fd", "vllm"]
)
def test_a_head_for_another_target_is_rejected(
    write_folder: WriteFolder, config: dict[str, Any], weights: dict[str, Tensor]
) -> None:
    other = TargetFacts(64, VOCAB, None, torch.float32, torch.device("cpu"))

    with pytest.raises(HeadTargetError, match=r"its hidden_size is 48, the target's 64"):
        load_head(write_folder(config, weights), other)


def test_an_untrained_head_says_what_the_target_says(
    make_head: MakeHead, tables: dict[str, Tensor]
) -> None:
    trained = make_head(kind="medusa", share_output=True, residual_layers=2)
    head = DraftHead.new(trained.config, output=tables["output"])
    hidden = torch.randn(4, HIDDEN)

    drafted, _ = head.propose(hidden, torch.zeros(4, dtype=torch.int64), 3)

    said = (hidden @ tables["output"][:VOCAB].T).argmax(-1)
    assert drafted.tolist() == said[:, None].expand(-1, 3).tolist()
    assert (
        trained.propose(hidden, torch.zeros(4, dtype=torch.int64), 3)[0].tolist()
        != drafted.tolist()
    )
