"""A Medusa head in vLLM's published layout beside the suffix index."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.config import load_settings
from engine.models import CATALOGUE, folder_of
from tests.e2e.exactness.conftest import profile, speculation
from tests.e2e.exactness.prompts import make_prompts
from tests.e2e.exactness.worker import Worker, starting_worker
from tests.e2e.service import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

DRAFTED = "engine_spec_draft_tokens_total"
DRAFT_VOCAB, HEADS = 2048, 3


def write_medusa(folder: Path, target: Path) -> Path:
    """Write heads with random layers on the target's output layer, which a copy would repeat."""
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    hidden = config["hidden_size"]
    draws = torch.Generator().manual_seed(3)
    tensors = {
        f"blocks.{head}.layers.0.weight": 0.02 * torch.randn(hidden, hidden, generator=draws)
        for head in range(HEADS)
    }
    tensors["token_map"] = torch.randperm(config["vocab_size"], generator=draws)[:DRAFT_VOCAB]
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    published = {
        "architectures": ["MedusaModel"],
        "hidden_size": hidden,
        "model_type": "medusa",
        "num_heads": HEADS,
        "num_hidden_layers": 1,
        "original_lm_head": True,
        "truncated_vocab_size": DRAFT_VOCAB,
        "vocab_size": config["vocab_size"],
    }
    (folder / "config.json").write_text(json.dumps(published), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def medusa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker whose sources are the suffix index and such a head."""
    folder = tmp_path_factory.mktemp("medusa")
    target = folder_of(CATALOGUE[MODEL], cache_dir=load_settings(None).cache_dir)
    head = write_medusa(folder / "head", target)
    both = speculation(sources=["suffix", "head"], head={"path": str(head)})
    with starting_worker(folder, profile(vllm={}, speculation=both)) as worker:
        worker.wait_ready()
        yield worker


def test_tokens_are_the_same_with_a_medusa_head_and_the_suffix_index(
    plain: Worker, medusa: Worker
) -> None:
    bodies = [{"prompt": prompt} for prompt in make_prompts(8, seed=86)]

    answers = medusa.ask_all(bodies)

    assert answers == plain.ask_all(bodies)
    assert medusa.wait_for(DRAFTED, above=0, source="head") > 0
    assert medusa.metric("engine_spec_fallbacks_total") == 0
