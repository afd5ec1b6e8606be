"""A target of a few kilobytes, and a simple language that a head can learn."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from engine.training.documents import Document
from engine.training.shard import Shard

VOCAB_SIZE = 96
HIDDEN_SIZE = 64

RECIPE: dict[str, Any] = {
    "name": "tiny",
    "seed": 3,
    "engine": {"vllm": {"dtype": "float32"}},
    "text": {"tokens": 1, "prompts": [{"kind": "count", "weight": 1}]},
    "hidden": {"batch_tokens": 512, "shard_tokens": 700},
    "head": {"kind": "lstm", "inner_size": 32, "positions": 3, "draft_vocab_size": 64},
    "train": {
        "steps": 24,
        "batch_tokens": 128,
        "micro_batch_tokens": 64,
        "run_tokens": 8,
        "learning_rate": 1.0e-2,
        "distillation_ratio": 0.2,
        "bfloat16": False,
        "checkpoint_every_steps": 5,
        "log_every_steps": 4,
        "evaluate_every_steps": 12,
        "evaluate_tokens": 100,
    },
}


def write_target(folder: Path, *, vocabulary: int = VOCAB_SIZE) -> Path:
    """Write a Llama of two layers with random weights."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=HIDDEN_SIZE,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    return folder


def speak(number: int, *, length: int = 40) -> Document:
    """Return document `number`: it counts by its own stride, with occasional jumps."""
    draws = random.Random(number)
    token, stride = draws.randrange(VOCAB_SIZE), draws.choice((1, 2))
    said = []
    for _ in range(length):
        said.append(token)
        token = (token + stride) % VOCAB_SIZE if draws.random() < 0.95 else draws.randrange(64)
    begin = draws.randrange(2, 9)
    return Document(number, ("even", "odd")[number % 2], tuple(said[:begin]), tuple(said[begin:]))


def write_text(path: Path, *, documents: int) -> None:
    lines = (speak(number) for number in range(documents))
    path.write_text(
        "".join(
            json.dumps({"number": d.number, "kind": d.kind, "prompt": d.prompt, "answer": d.answer})
            + "\n"
            for d in lines
        ),
        encoding="utf-8",
    )


def prepare(
    folder: Path, *, documents: int = 200, vocabulary: int = VOCAB_SIZE, **sections: Any
) -> Path:
    """Write target, text and a recipe file; return the file."""
    write_target(folder / "target", vocabulary=vocabulary)
    (folder / "tiny").mkdir()
    write_text(folder / "tiny" / "text.jsonl", documents=documents)
    document = {**RECIPE, "folder": str(folder)}
    document["engine"] = {**RECIPE["engine"], "model": str(folder / "target")}
    for name, changes in sections.items():
        document[name] = {**document[name], **changes}
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def shard_of(
    hidden: Tensor,
    tokens: Tensor,
    lengths: Sequence[int],
    *,
    prompts: Sequence[int] | None = None,
    kinds: Sequence[str] | None = None,
) -> Shard:
    """Return a shard; by default without prompt rows and with a single kind."""
    return Shard.of(
        hidden,
        tokens,
        lengths=lengths,
        prompts=prompts or [0] * len(lengths),
        kinds=kinds or ["chat"] * len(lengths),
    )


def some_shard(*lengths: int, prompts: Sequence[int] | None = None, hidden_size: int = 4) -> Shard:
    """Return documents whose tokens count up from 10; states equal tokens."""
    tokens = torch.arange(10, 10 + sum(lengths))
    hidden = tokens[:, None].expand(-1, hidden_size).to(torch.bfloat16)
    return shard_of(hidden.contiguous(), tokens, lengths, prompts=prompts)
