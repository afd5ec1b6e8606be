"""An EAGLE-3 head of vLLM's own beside the suffix index, from a small checkpoint in that layout."""

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
DRAFT_VOCAB, INTERMEDIATE, AUX_STATES = 2048, 128, 3


def write_eagle3(folder: Path, target: Path) -> Path:
    """Write a head with random weights for a target of the Llama family.

    The layout is that of the checkpoints of SafeAILab/EAGLE: one layer, `midlayer`, whose attention
    reads embedding and state side by side; `fc` makes one state of three; `d2t` says how far the
    target's id of a token is from the head's.
    """
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    heads, of_keys = config["num_attention_heads"], config["num_key_value_heads"]
    width = hidden // heads
    shapes = {
        "fc.weight": (hidden, AUX_STATES * hidden),
        "midlayer.self_attn.q_proj.weight": (heads * width, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": (of_keys * width, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": (of_keys * width, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": (hidden, heads * width),
        "midlayer.mlp.gate_proj.weight": (INTERMEDIATE, hidden),
        "midlayer.mlp.up_proj.weight": (INTERMEDIATE, hidden),
        "midlayer.mlp.down_proj.weight": (hidden, INTERMEDIATE),
        "lm_head.weight": (DRAFT_VOCAB, hidden),
    }
    draws = torch.Generator().manual_seed(3)
    tensors = {name: 0.02 * torch.randn(shape, generator=draws) for name, shape in shapes.items()}
    for norm in ("midlayer.hidden_norm", "midlayer.input_layernorm"):
        tensors[f"{norm}.weight"] = torch.ones(hidden)
    for norm in ("midlayer.post_attention_layernorm", "norm"):
        tensors[f"{norm}.weight"] = torch.ones(hidden)
    ids = torch.arange(DRAFT_VOCAB) * 3
    tensors["d2t"] = ids - torch.arange(DRAFT_VOCAB)
    tensors["t2d"] = torch.zeros(vocabulary, dtype=torch.bool).index_fill(0, ids, True)
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    ours = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": DRAFT_VOCAB,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": 1,
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config | ours), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def eagle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker whose sources are the suffix index and such a head."""
    folder = tmp_path_factory.mktemp("eagle")
    target = folder_of(CATALOGUE[MODEL], cache_dir=load_settings(None).cache_dir)
    head = write_eagle3(folder / "head", target)
    drafter = {"method": "eagle3", "model": str(head), "num_speculative_tokens": 3}
    both = speculation(sources=["suffix", "native"], native={"config": drafter})
    with starting_worker(folder, profile(vllm={}, speculation=both)) as worker:
        worker.wait_ready()
        yield worker


def test_tokens_are_the_same_with_an_eagle3_head_and_the_suffix_index(
    plain: Worker, eagle: Worker
) -> None:
    bodies = [{"prompt": prompt} for prompt in make_prompts(8, seed=86)]

    answers = eagle.ask_all(bodies)

    assert answers == plain.ask_all(bodies)
    assert eagle.wait_for(DRAFTED, above=0, source="native") > 0
    sources = frozenset[str]().union(*(answer.drafts.sources for answer in answers))
    assert sources == {"suffix", "native"}
