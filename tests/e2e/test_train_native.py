"""vLLM's own drafters from text to a worker that drafts with them, trained by the library."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from engine.config import load_settings
from engine.models import CATALOGUE, folder_of
from tests.e2e.service import MODEL, ROOT
from tests.e2e.test_train import writing_engine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

TOKENS, LAYERS, DRAFT_VOCAB = 40, 4, 256

RECIPE: dict[str, Any] = {
    "name": "native",
    "engine": writing_engine(dtype="float32", max_model_len=128, max_num_seqs=8),
    "text": {"tokens": 1, "held_out_every": 4, "prompts": [{"kind": "count", "weight": 1}]},
    "train": {"epochs": 2, "sequence_tokens": 128},
}


def write_target(folder: Path) -> Path:
    """Write a Llama of four small layers with random weights, and a tokenizer."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        dtype="float32",
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    known = folder_of(CATALOGUE[MODEL], cache_dir=load_settings(None).cache_dir)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(known / name, folder)
    return folder


def write_text(folder: Path) -> None:
    """Write 24 documents, each of which counts."""
    folder.mkdir()
    lines = []
    for number in range(24):
        begin = random.Random(number).randrange(100, 200)
        said = list(range(begin, begin + TOKENS))
        document = {"number": number, "kind": "count", "prompt": said[:8], "answer": said[8:]}
        lines.append(json.dumps(document) + "\n")
    (folder / "text.jsonl").write_text("".join(lines), encoding="utf-8")


def prepare(folder: Path, **sections: dict[str, Any]) -> Path:
    """Write a target, text and a recipe; return the recipe's path."""
    target = write_target(folder / "target")
    write_text(folder / "native")
    shape = {"draft_vocab_size": DRAFT_VOCAB, "layers": [1, 2, 3], **sections.pop("head")}
    engine = {**RECIPE["engine"], "model": str(target)}
    document = {**RECIPE, "folder": str(folder), "head": shape, "engine": engine, **sections}
    recipe = folder / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(document), encoding="utf-8")
    return recipe


def start(recipe: Path) -> subprocess.Popen[bytes]:
    """Start the training; Ctrl-C reaches it even if the tests are a background job of a shell."""
    return subprocess.Popen(
        [sys.executable, "-m", "engine.training", recipe],
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize(
    ("head", "hidden"),
    [
        ({"kind": "eagle3"}, {}),
        pytest.param({"kind": "eagle3"}, {"store": False}, marks=pytest.mark.slow),
        pytest.param({"kind": "peagle", "mask_token": 5}, {}, marks=pytest.mark.slow),
        pytest.param({"kind": "dflash", "mask_token": 5}, {}, marks=pytest.mark.slow),
    ],
    ids=["eagle3", "eagle3-beside-the-worker", "peagle", "dflash"],
)
def test_a_drafter_is_trained_and_drafts(
    tmp_path: Path, head: dict[str, object], hidden: dict[str, object]
) -> None:
    recipe = prepare(tmp_path, head=head, hidden=hidden)
    run = tmp_path / "native"

    # Its last step refuses a drafter with which a worker does not draft.
    with start(recipe) as process:
        assert process.wait() == 0

    drafter = load_file(run / "head" / "model.safetensors")
    assert drafter["d2t"].shape == (DRAFT_VOCAB,)
    config = json.loads((run / "head" / "config.json").read_text(encoding="utf-8"))
    assert config["speculators_config"]["algorithm"] == head["kind"]
    figures = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    assert figures["loss_epoch"] > 0
    stored = list((run / "data" / "hidden_states").glob("*.safetensors"))
    assert len(stored) == (0 if hidden else 24)
    for path in stored:
        assert load_file(path)["hidden_states"].shape == (TOKENS, LAYERS, 64)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_training_that_was_stopped_goes_on_from_where_it_was(tmp_path: Path) -> None:
    train = {"epochs": 8, "sequence_tokens": 64, "checkpoints_per_epoch": 6}
    recipe = prepare(tmp_path, head={"kind": "eagle3"}, train=train)
    checkpoints = tmp_path / "native" / "train"

    with start(recipe) as process:
        while not (checkpoints / "1").exists():  # early in the second epoch
            assert process.poll() is None
            time.sleep(0.05)
        leader = psutil.Process(process.pid)
        started = leader.children(recursive=True)
        process.send_signal(signal.SIGINT)  # Ctrl-C
        assert process.wait() == 128 + signal.SIGINT
    assert not psutil.wait_procs(started, timeout=5)[1]
    assert not (checkpoints / "7").exists()
    state = json.loads((checkpoints / "1" / "training_state.json").read_text(encoding="utf-8"))
    assert state["local_step"] > 0
    kept = [checkpoints / "0" / "model.safetensors", *(tmp_path / "native" / "data").rglob("*.*")]
    before = [path.stat().st_mtime_ns for path in kept]

    with start(recipe) as process:
        assert process.wait() == 0

    assert [path.stat().st_mtime_ns for path in kept] == before
    assert (tmp_path / "native" / "head" / "config.json").exists()
