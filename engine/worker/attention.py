"""Computes vLLM's attention on CPUs with our kernel where it applies (docs/adr/0029).

Our kernel handles causal decoder attention over a KV cache in the vector layout, which then also
replaces vLLM's AMX layout. Sliding windows, sinks, biases, quantised caches and encoders stay with
vLLM.
"""

from typing import Any

import torch
from torch import Tensor
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
from vllm.v1.kv_cache_interface import is_quantized_kv_cache

from engine.kernels import PagedAttention, StepRequests, attention_kernels

_MOST_DIM = 512  # of a head, in our kernels


def attend_with_ours() -> None:
    """Compute the supported ones of the layers that are built from now on; idempotent.

    vLLM's CPU platform knows one backend by name, `CPU_ATTN`, so ours takes that name.
    """
    if attention_kernels(torch.float32):
        register_backend(AttentionBackendEnum.CPU_ATTN)(Backend)


class Builder(CPUAttentionMetadataBuilder):
    """Chooses the KV cache's layout; the metadata of a step are vLLM's."""

    isa: str

    def _set_isa_to_layers(self, layer_names: list[str]) -> None:
        # Caches that are sent to other workers keep vLLM's layout: both ends have to agree on it.
        is_ours = (
            self.isa == "amx"
            and attention_kernels(self.dtype)
            and self.vllm_config.kv_transfer_config is None
        )
        if is_ours and not is_quantized_kv_cache(self.kv_cache_dtype):
            self.isa = "vec"
        super()._set_isa_to_layers(layer_names)


class Attention(CPUAttentionBackendImpl):
    """The attention of one layer: by our kernel, or else by vLLM's."""

    _address = 0
    _attention: PagedAttention | None = None

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        attn_metadata: Any,
        output: Tensor,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """Write the attention of the step's tokens to `output` and return it."""
        is_ours = (
            attn_metadata is not None
            and attn_metadata.causal is True
            and attn_metadata.dynamic_causal is None
            and output_scale is None
            and output_block_scale is None
            and is_made_for(self, layer, query.dtype)
        )
        if not is_ours:
            scales = (output_scale, output_block_scale)
            rest = (query, key, value, kv_cache, attn_metadata, output, *scales)
            found: Tensor = super().forward(layer, *rest)
            return found
        count = attn_metadata.num_actual_tokens
        attention = self._over(kv_cache)
        attention(query[:count], requests_of(attn_metadata), output[:count])
        return output

    def _over(self, kv_cache: Tensor) -> PagedAttention:
        if self._attention is None or self._address != kv_cache.data_ptr():
            blocks, heads, tokens, _ = kv_cache.shape
            keys, values = kv_cache.view(blocks, heads, 2 * tokens, -1).chunk(2, dim=2)
            self._address = kv_cache.data_ptr()
            self._attention = PagedAttention(keys, values, heads=self.num_heads, scale=self.scale)
        return self._attention


class Backend(CPUAttentionBackend):
    """vLLM's backend for CPUs with the two classes above; the same name, so the same options."""

    @staticmethod
    def get_impl_cls() -> type[CPUAttentionBackendImpl]:
        """Return the class that computes a layer."""
        return Attention

    @staticmethod
    def get_builder_cls() -> type[CPUAttentionMetadataBuilder]:
        """Return the class that makes the metadata of a step."""
        return Builder


def is_made_for(impl: Any, layer: Any, dtype: torch.dtype) -> bool:
    """Tell whether our kernel computes a layer's attention.

    Args:
        impl: vLLM's implementation of it.
        layer: vLLM's `Attention`, once the KV cache is laid out.
        dtype: Of its queries.
    """
    return (
        layer.isa == "vec"
        and impl.attn_type == AttentionType.DECODER
        and impl.sliding_window == -1
        and impl.alibi_slopes is None
        and impl.sinks is None
        and not impl.logits_soft_cap
        and not impl.is_fp8_kv_cache
        and impl.head_size <= _MOST_DIM
        and bool(attention_kernels(dtype))
    )


def requests_of(metadata: Any) -> StepRequests:
    """Return the step's requests, shared by its layers; vLLM's drafters may replace the tensors."""
    tensors = (metadata.query_start_loc, metadata.seq_lens, metadata.block_table)
    found: StepRequests | None = metadata.__dict__.get("specgate_requests")
    if found is None or not found.are(*tensors):
        found = metadata.specgate_requests = StepRequests(*tensors)
    return found
