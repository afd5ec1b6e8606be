"""Small heads, and folders that hold them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.heads import DraftHead, HeadConfig, TargetFacts
from tests.fakes.cuda import MadeUpCuda, made_up_cuda

HIDDEN, VOCAB, INNER = 48, 90, 32
MEDUSA = {
    "kind": "medusa",
    "inner_size": HIDDEN,
    "tie_positions": False,
    "scale_input": False,
}

WriteFolder = Callable[[Mapping[str, Any], Mapping[str, Tensor]], Path]
MakeHead = Callable[..., DraftHead]


@pytest.fixture
def target() -> TargetFacts:
    return TargetFacts(HIDDEN, VOCAB, None, torch.float32, torch.device("cpu"))


@pytest.fixture
def tables() -> dict[str, Tensor]:
    """The target's embedding and output, padded as vLLM pads them."""
    draws = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(VOCAB + 6, HIDDEN, generator=draws) for name in ("embedding", "output")
    }


@pytest.fixture
def write_folder(tmp_path: Path) -> WriteFolder:
    def write(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Path:
        folder = tmp_path / "head"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        save_file(dict(weights), folder / "model.safetensors")
        return folder

    return write


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[MadeUpCuda]:
    """The made-up CUDA device."""
    with made_up_cuda(monkeypatch) as cuda:
        yield cuda


@pytest.fixture(
    params=[
        "made up",
        pytest.param(
            "real",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
            ],
        ),
    ]
)
def cuda(request: pytest.FixtureRequest) -> torch.device:
    """A CUDA device."""
    if request.param == "made up":
        request.getfixturevalue("made_up")
    return torch.device("cuda", 0)


@pytest.fixture
def make_head(tables: dict[str, Tensor]) -> MakeHead:
    """Heads with random weights, norms included; the draft vocabulary is every other token.

    Medusa's get what else it needs.
    """

    def make(**fields: Any) -> DraftHead:
        config = HeadConfig(
            **{
                "kind": "lstm",
                "hidden_size": HIDDEN,
                "vocab_size": VOCAB,
                "inner_size": INNER,
                "positions": 3,
                **(MEDUSA if fields.get("kind") == "medusa" else {}),
                **fields,
            }
        )
        count = config.draft_vocab_size
        ids = None if count is None else range(1, 1 + 2 * count, 2)
        head = DraftHead.new(config, ids, seed=7, **tables)
        draws = torch.Generator().manual_seed(8)
        for parameter in head.parameters():
            if parameter.ndim == 1 or not parameter.any():
                parameter.data += 0.3 * torch.randn(parameter.shape, generator=draws)
        head.eval()
        return head

    return make


def small_mlp(**fields: Any) -> HeadConfig:
    """Return the configuration of a tiny MLP head."""
    sizes = {"hidden_size": 4, "vocab_size": 10, "inner_size": 4, "positions": 2}
    return HeadConfig(kind="mlp", **{**sizes, **fields})


def head_with_window(window: int, draft_ids: Sequence[int] | None = None) -> DraftHead:
    """Return a small head with a window; with `draft_ids` it also drafts window tokens."""
    is_short = draft_ids is not None
    config = HeadConfig(
        kind="gated",
        hidden_size=32,
        vocab_size=50,
        inner_size=16,
        positions=3,
        window=window,
        attention_heads=2,
        attention_head_size=8,
        draft_vocab_size=None if draft_ids is None else len(draft_ids),
        share_output=is_short,
        window_tokens=is_short,
    )
    output = torch.randn(50, 32, generator=torch.Generator().manual_seed(2))
    made = DraftHead.new(config, draft_ids, output=output if is_short else None, seed=1)
    made.eval()
    return made
