"""Converts a GGUF file to a Hugging Face model folder that vLLM can load."""

import json
from collections.abc import Callable
from pathlib import Path

from pydantic import JsonValue
from tokenizers import Tokenizer

from engine.models.gguf_file import GgufFile, open_gguf
from engine.models.tokenizer import build_tokenizer, check_tokenizer
from engine.models.weights import write_weights


def convert(path: Path, folder: Path, *, report: Callable[[str], None]) -> None:
    """Convert the model in a GGUF file.

    Args:
        path: The GGUF file.
        folder: An existing, empty folder to write to.
        report: Called with a line about each step that may take longer than a second.

    Raises:
        ModelError: The file cannot be converted faithfully.
    """
    report(f"reading {path.name}")
    source = open_gguf(path)
    tokenizer = build_tokenizer(source)
    check_tokenizer(tokenizer)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / "config.json", _model_config(source))
    _write_json(folder / "generation_config.json", _generation_config(source, tokenizer))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(source))
    report("converting the weights to bfloat16")
    write_weights(source, folder, report=report)


def _model_config(source: GgufFile) -> dict[str, JsonValue]:
    architecture = source.architecture
    heads = source.dimension("attention.head_count")
    hidden = source.dimension("embedding_length")
    rope_theta = source.ratio("rope.freq_base")
    return {
        **architecture.config,
        "architectures": [architecture.model_class],
        "model_type": architecture.model_type,
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": source.dimension("feed_forward_length"),
        "num_hidden_layers": source.dimension("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": source.dimension("attention.head_count_kv"),
        "head_dim": hidden // heads,
        "max_position_embeddings": source.dimension("context_length"),
        "rms_norm_eps": source.ratio("attention.layer_norm_rms_epsilon"),
        "rope_theta": rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": rope_theta},
        "tie_word_embeddings": not source.has_tensor("output.weight"),
        "vocab_size": len(source.items("tokenizer.ggml.tokens")),
        **_token_ids(source),
    }


def _generation_config(source: GgufFile, tokenizer: Tokenizer) -> dict[str, JsonValue]:
    ends = [source.integer("tokenizer.ggml.eos_token_id")]
    for text in source.architecture.end_tokens:
        token_id = tokenizer.token_to_id(text)
        if token_id is not None and token_id not in ends:
            ends.append(token_id)
    return {**_token_ids(source), "eos_token_id": [*ends]}


def _tokenizer_config(source: GgufFile) -> dict[str, JsonValue]:
    texts = source.items("tokenizer.ggml.tokens")
    config: dict[str, JsonValue] = {
        name.removesuffix("_id"): str(texts[token_id])
        for name, token_id in _token_ids(source).items()
    }
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config["model_max_length"] = source.dimension("context_length")
    config["clean_up_tokenization_spaces"] = False
    if "tokenizer.chat_template" in source.metadata:
        config["chat_template"] = source.text("tokenizer.chat_template")
    return config


def _token_ids(source: GgufFile) -> dict[str, int]:
    return {
        "bos_token_id": source.integer("tokenizer.ggml.bos_token_id"),
        "eos_token_id": source.integer("tokenizer.ggml.eos_token_id"),
        "pad_token_id": source.integer("tokenizer.ggml.padding_token_id"),
    }


def _write_json(path: Path, document: dict[str, JsonValue]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False), encoding="utf-8")
