"""Computes the layers of a known model in one call of our core (docs/adr/0032).

The one seam: the forward method of vLLM's inner module (`LlamaModel` and its like), over vLLM's
paged cache and metadata. Whether a model is known is decided once, when it is loaded and its cache
laid out. One that is not stays whole with vLLM's modules, and the log says why.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.activation import SiluAndMul
from vllm.model_executor.layers.layernorm import RMSNorm
from vllm.model_executor.layers.rotary_embedding import (
    LinearScalingRotaryEmbedding,
    Llama3RotaryEmbedding,
    RotaryEmbedding,
    YaRNScalingRotaryEmbedding,
)
from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding
from vllm.model_executor.models import llama, mistral, qwen2, qwen3

from engine.errors import EngineError
from engine.kernels import (
    Decoder,
    DecoderLayer,
    DecoderSizes,
    Linear,
    PagedAttention,
    attention_kernels,
)
from engine.worker.attention import is_made_for, requests_of
from engine.worker.linear import is_ours

_log = logging.getLogger(__name__)

_MODELS = (llama.LlamaModel, mistral.MistralModel, qwen2.Qwen2Model, qwen3.Qwen3Model)
_KNOWN_TYPES: Mapping[str, tuple[type, ...]] = {
    "embed_tokens": (VocabParallelEmbedding,),
    "norm": (RMSNorm,),
    "layers.0": (
        llama.LlamaDecoderLayer,
        mistral.MistralDecoderLayer,
        qwen2.Qwen2DecoderLayer,
        qwen3.Qwen3DecoderLayer,
    ),
    "layers.0.input_layernorm": (RMSNorm,),
    "layers.0.post_attention_layernorm": (RMSNorm,),
    "layers.0.self_attn": (
        llama.LlamaAttention,
        mistral.MistralAttention,
        qwen2.Qwen2Attention,
        qwen3.Qwen3Attention,
    ),
    # Those that look cosines and sines up in a table, whatever the scaling that made it.
    "layers.0.self_attn.rotary_emb": (
        RotaryEmbedding,
        LinearScalingRotaryEmbedding,
        Llama3RotaryEmbedding,
        YaRNScalingRotaryEmbedding,
    ),
    "layers.0.mlp": (llama.LlamaMLP, mistral.MistralMLP, qwen2.Qwen2MLP),
    "layers.0.mlp.act_fn": (SiluAndMul,),
}
# What configs of these families may say. The loaded modules follow the first; the others say
# nothing about the computation.
_KNOWN_KEYS = frozenset({
    "attention_bias", "head_dim", "hidden_act", "hidden_size", "intermediate_size",
    "layer_types", "max_position_embeddings", "max_window_layers", "mlp_bias",
    "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "qkv_bias",
    "rms_norm_eps", "rope_parameters", "rope_scaling", "rope_theta", "is_causal",
    "sliding_window", "tie_word_embeddings", "use_sliding_window", "vocab_size",
    "_name_or_path", "architectures", "attention_dropout", "attn_implementation", "auto_map",
    "bos_token_id", "chunk_size_feed_forward", "dtype", "eos_token_id", "id2label",
    "initializer_range", "is_encoder_decoder", "is_llama_config", "label2id", "model_type",
    "output_attentions", "output_hidden_states", "pad_token_id", "pretraining_tp",
    "problem_type", "return_dict", "rope_interleaved", "torch_dtype", "transformers.js_config",
    "transformers_version", "unsloth_fixed", "unsloth_version", "use_cache",
})  # fmt: skip
_UNIT = 16  # widths are multiples of it


def compute_in_one_call(model: nn.Module, vllm_config: Any, layer_groups: Sequence[Any]) -> bool:
    """Compute the layers of a model in one call if it is known; say in the log if it is not.

    Args:
        model: vLLM's model, with its weights and its KV cache.
        vllm_config: vLLM's configuration of this process.
        layer_groups: The names of the layers that share metadata, by group.

    Returns:
        Whether it is known.
    """
    reason = next(_objections(model, vllm_config, layer_groups), None)
    if reason is not None:
        _log.info("specgate: vLLM's modules compute the layers, one by one: %s", reason)
        return False
    inner: Any = model.model
    inner.forward = _Forward(inner)
    _log.info("specgate: one call computes the %d layers", len(inner.layers))
    return True


def is_in_one_call(model: nn.Module) -> bool:
    """Tell whether `compute_in_one_call` has taken a model."""
    return isinstance(getattr(getattr(model, "model", None), "forward", None), _Forward)


def _objections(model: Any, vllm_config: Any, groups: Sequence[Any]) -> Iterator[str]:
    """Yield why the model is not known, in an order in which each may rely on those before."""
    inner: Any = getattr(model, "model", None)
    if type(inner) not in _MODELS:
        yield f"{type(model).__name__} is not a known architecture"
    yield from _objections_to_settings(vllm_config)
    yield from _objections_to_config(vllm_config.model_config.hf_config)
    for index in range(len(inner.layers)):
        yield from _objections_to_layer(inner, index, vllm_config.model_config.dtype)
    names = {layer.self_attn.attn.layer_name for layer in inner.layers}
    if not any(names <= set(group) for group in groups):
        yield "its layers are in several groups of the KV cache"


def _objections_to_settings(vllm_config: Any) -> Iterator[str]:
    parallel = vllm_config.parallel_config
    for name, is_set in (
        ("LoRA", vllm_config.lora_config is not None),
        ("quantization", vllm_config.quant_config is not None),
        ("kv_transfer_config", vllm_config.kv_transfer_config is not None),
        ("tensor_parallel_size", parallel.tensor_parallel_size > 1),
        ("pipeline_parallel_size", parallel.pipeline_parallel_size > 1),
        ("enforce_eager: false", not vllm_config.model_config.enforce_eager),
    ):
        if is_set:
            yield f"{name} is not known"
    if not attention_kernels(vllm_config.model_config.dtype):
        yield f"no kernel for {vllm_config.model_config.dtype}"


def _objections_to_config(config: Any) -> Iterator[str]:
    said = config.to_dict()
    for key, value in said.items():
        # Some configs have a window that is switched off; the layers know.
        if key not in _KNOWN_KEYS and value not in (None, False):
            yield f"the config says {key}, which is not known"
    for kind in said.get("layer_types") or ():
        if kind != "full_attention":
            yield f"layer_types has {kind}, which is not known"
    for key in ("hidden_size", "intermediate_size"):
        if said[key] % _UNIT:
            yield f"{key} is {said[key]}, not a multiple of {_UNIT}"


def _objections_to_layer(inner: Any, index: int, dtype: torch.dtype) -> Iterator[str]:
    for name, types in _KNOWN_TYPES.items():
        path = name.replace("layers.0", f"layers.{index}")
        module: Any = inner.get_submodule(path)
        if type(module) not in types:
            yield f"{path} is a {type(module).__name__}, which is not known"
    layer = inner.layers[index]
    mixing, mlp = layer.self_attn, layer.mlp
    for product in (mixing.qkv_proj, mixing.o_proj, mlp.gate_up_proj, mlp.down_proj):
        if not is_ours(product):
            yield f"{product.prefix} is not one of our products"
    yield from _objections_to_attention(mixing, dtype)


def _objections_to_attention(mixing: Any, dtype: torch.dtype) -> Iterator[str]:
    rotary, attention = mixing.rotary_emb, mixing.attn
    if not rotary.is_neox_style or rotary.rotary_dim != mixing.head_dim:
        yield "a part of each head is rotated, or in another order"
    if getattr(mixing, "dual_chunk_attention_config", None) is not None:
        yield "dual_chunk_attention_config is not known"
    if attention.kv_sharing_target_layer_name is not None:
        yield "its layers share a cache"
    if attention.impl.sliding_window != -1:
        yield "sliding_window is not known"
    if not is_made_for(attention.impl, attention, dtype) or mixing.head_dim % 32:
        yield "vLLM computes its attention"


class _Forward:
    """Takes the place of the inner module's forward method."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._decoder = _decoder_of(inner)
        self._address = 0
        self._first = inner.layers[0].self_attn.attn

    def __call__(
        self,
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: object = None,
        inputs_embeds: Tensor | None = None,
        **_: object,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Compute a step; the arguments and results of vLLM's method.

        Raises:
            EngineError: The step's attention is not causal.
            IndexError: A token id, a position or a slot is out of range.
            MemoryError: There is no memory for the step.
        """
        context = get_forward_context()
        taps = self._inner.aux_hidden_state_layers
        tokens = input_ids if inputs_embeds is None else inputs_embeds
        assert tokens is not None
        metadata = context.attn_metadata
        if metadata is None:
            states, streams = self._decoder(tokens, positions, taps=taps)
        else:
            mine = metadata[self._first.layer_name]
            if mine.causal is not True or mine.dynamic_causal is not None:
                raise EngineError("attention of this step is not causal")
            self._bind_caches()
            slots = context.slot_mapping[self._first.layer_name]
            states, streams = self._decoder(tokens, positions, slots, requests_of(mine), taps)
        return (states, streams) if streams else states

    def _bind_caches(self) -> None:
        address = self._first.kv_cache.data_ptr()
        if address != self._address:
            self._decoder.bind([_paged(layer.self_attn.attn) for layer in self._inner.layers])
            self._address = address


def _paged(layer: Any) -> PagedAttention:
    blocks, heads, tokens, _ = layer.kv_cache.shape
    keys, values = layer.kv_cache.view(blocks, heads, 2 * tokens, -1).chunk(2, dim=2)
    return PagedAttention(keys, values, heads=layer.impl.num_heads, scale=layer.impl.scale)


def _decoder_of(inner: Any) -> Decoder:
    first = inner.layers[0]
    mixing, dtype = first.self_attn, inner.norm.weight.dtype
    sizes = DecoderSizes(
        hidden=inner.norm.weight.shape[0],
        intermediate=_linear(first.mlp.gate_up_proj).packed.out // 2,
        heads=mixing.num_heads,
        kv_heads=mixing.num_kv_heads,
        dim=mixing.head_dim,
        scale=mixing.attn.impl.scale,
        epsilon=inner.norm.variance_epsilon,
    )
    return Decoder(
        sizes,
        [_layer(layer) for layer in inner.layers],
        embeddings=inner.embed_tokens.weight.detach(),
        angles=mixing.rotary_emb.cos_sin_cache.to(dtype).contiguous(),
        norm=inner.norm.weight.detach(),
    )


def _layer(layer: Any) -> DecoderLayer:
    mixing = layer.self_attn
    return DecoderLayer(
        qkv=_linear(mixing.qkv_proj),
        out=_linear(mixing.o_proj),
        gate_up=_linear(layer.mlp.gate_up_proj),
        down=_linear(layer.mlp.down_proj),
        attention_norm=layer.input_layernorm.weight.detach(),
        mlp_norm=layer.post_attention_layernorm.weight.detach(),
        query_norm=_norm(getattr(mixing, "q_norm", None)),
        key_norm=_norm(getattr(mixing, "k_norm", None)),
    )


def _norm(module: Any) -> Tensor | None:
    return None if module is None else module.weight.detach()


def _linear(module: Any) -> Linear:
    (packed,) = module.cpu_linear.args
    bias = None if module.bias is None else module.bias.detach()
    # With AMX vLLM converts some biases to float32; converting back is exact.
    return Linear(packed, None if bias is None else bias.to(packed.dtype).contiguous())
