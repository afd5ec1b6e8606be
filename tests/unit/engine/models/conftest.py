"""A Llama- or Qwen2-shaped GGUF file of a few kilobytes, written with gguf's own writer."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter, quantize
from tokenizers.pre_tokenizers import ByteLevel

HIDDEN, HEADS, KV_HEADS, FEED_FORWARD = 32, 4, 2, 24
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TOKENS = [*SPECIALS, *sorted(ByteLevel.alphabet()), "12", "<tool>"]

MakeGguf = Callable[..., Path]


def add_metadata(writer: GGUFWriter, preparation: str) -> None:
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(preparation)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * len(SPECIALS) + [1] * (len(TOKENS) - len(SPECIALS) - 1) + [4])
    writer.add_token_merges(["1 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template("{{ messages[0]['content'] }}")


def tensor_shapes(architecture: str) -> dict[str, tuple[int, ...]]:
    key_value = HIDDEN // HEADS * KV_HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (len(TOKENS), HIDDEN),
        "output_norm.weight": (HIDDEN,),
        "blk.0.attn_norm.weight": (HIDDEN,),
        "blk.0.attn_q.weight": (HIDDEN, HIDDEN),
        "blk.0.attn_k.weight": (key_value, HIDDEN),
        "blk.0.attn_v.weight": (key_value, HIDDEN),
        "blk.0.attn_output.weight": (HIDDEN, HIDDEN),
        "blk.0.ffn_norm.weight": (HIDDEN,),
        "blk.0.ffn_gate.weight": (FEED_FORWARD, HIDDEN),
        "blk.0.ffn_up.weight": (FEED_FORWARD, HIDDEN),
        "blk.0.ffn_down.weight": (HIDDEN, FEED_FORWARD),
    }
    if architecture == "qwen2":
        shapes |= {
            "output.weight": (len(TOKENS), HIDDEN),
            "blk.0.attn_q.bias": (HIDDEN,),
            "blk.0.attn_k.bias": (key_value,),
            "blk.0.attn_v.bias": (key_value,),
        }
    return shapes


@pytest.fixture
def make_gguf(tmp_path: Path) -> MakeGguf:
    def make(
        architecture: str = "llama",
        *,
        preparation: str = "smollm",
        extra_tensors: tuple[str, ...] = (),
        quantised: GGMLQuantizationType | None = None,
    ) -> Path:
        path = tmp_path / f"{architecture}.gguf"
        writer = GGUFWriter(path, architecture)
        add_metadata(writer, preparation)
        random = np.random.default_rng(7)
        shapes = tensor_shapes(architecture) | dict.fromkeys(extra_tensors, (HIDDEN,))
        for name, shape in shapes.items():
            values = random.standard_normal(shape, dtype=np.float32)
            if quantised is None or len(shape) == 1 or shape[1] % 32:
                writer.add_tensor(name, values)
            else:
                writer.add_tensor(name, quantize(values, quantised), raw_dtype=quantised)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return make
