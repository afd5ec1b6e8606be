"""How GGUF files of each architecture map to Hugging Face models: tables only.

Sources: the GGUF specification (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) for the
names on the left, Hugging Face's configuration class of each architecture for those on the right.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pydantic import JsonValue

# GGUF tensors outside the layers.
TOP_TENSORS: Mapping[str, str] = MappingProxyType({
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
})  # fmt: skip

# GGUF modules of layer `blk.N`; each has a weight and some have a bias.
LAYER_MODULES: Mapping[str, str] = MappingProxyType({
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Architecture:
    """The properties of an architecture.

    Attributes:
        model_type: `model_type` in config.json.
        model_class: Entry of `architectures` in config.json.
        rotary_heads: GGUF module -> key of its number of heads, for modules whose rows GGUF stores
            in its own rotary order; empty if the order is the same.
        config: Additional entries of config.json, the same for every size.
        end_tokens: Texts of tokens that end an answer, besides the file's own end token.
    """

    model_type: str
    model_class: str
    rotary_heads: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, JsonValue] = field(default_factory=dict)
    end_tokens: tuple[str, ...] = ()


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType({
    "llama": Architecture(
        model_type="llama",
        model_class="LlamaForCausalLM",
        rotary_heads={"attn_q": "attention.head_count", "attn_k": "attention.head_count_kv"},
        config={"attention_bias": False, "mlp_bias": False},
    ),
    "qwen2": Architecture(
        model_type="qwen2",
        model_class="Qwen2ForCausalLM",
        config={"use_sliding_window": False},
        end_tokens=("<|endoftext|>",),
    ),
})  # fmt: skip
