"""Replaces vLLM's CPU attention with our kernel where it applies (docs/adr/0029).

Our kernel handles causal decoder attention over a KV cache in the vector layout, which then also
replaces vLLM's AMX layout. Sliding windows, sinks, biases, quantised caches and encoders stay with
vLLM.
"""

from typing import Any

import torch
from torch import Tensor
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends import cpu_attn
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl

from engine.kernels import PagedAttention, StepRequests, attention_kernels

_MOST_DIM = 512  # of a head, in our kernels


def attend_with_ours() -> None:
    """Route every supported layer of this process to our kernel; idempotent."""
    theirs = CPUAttentionBackendImpl.forward
    if not isinstance(theirs, _Forward) and attention_kernels(torch.float32):
        CPUAttentionBackendImpl.forward = _Forward(theirs)
        cpu_attn._get_attn_isa = _OurLayout(cpu_attn._get_attn_isa)


class _OurLayout:
    """Chooses the layout of a KV cache; replaces `cpu_attn._get_attn_isa`.

    Args:
        theirs: The original function.
    """

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __call__(
        self,
        dtype: torch.dtype,
        block_size: int,
        head_size: int | None = None,
        kv_cache_dtype: str | None = None,
    ) -> str:
        """Return vLLM's choice, or `vec` instead of `amx` where our kernel computes."""
        chosen: str = self._theirs(dtype, block_size, head_size, kv_cache_dtype)
        is_quantized = kv_cache_dtype is not None and cpu_attn.is_quantized_kv_cache(kv_cache_dtype)
        if chosen == "amx" and attention_kernels(dtype) and not is_quantized:
            return "vec"
        return chosen


class _Forward:
    """Descriptor that replaces `CPUAttentionBackendImpl.forward`.

    Args:
        theirs: The original method.
    """

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __get__(self, impl: Any, owner: type) -> Any:
        """Return the callable for a layer's implementation, or itself for the class."""
        if impl is None:
            return self
        bound = impl.__dict__.get("specgate_forward")
        if bound is None:
            bound = impl.specgate_forward = _LayerForward(impl, self._theirs)
        return bound


class _LayerForward:
    """Computes the attention of one layer."""

    def __init__(self, impl: Any, theirs: Any) -> None:
        self._impl = impl
        self._theirs = theirs
        self._address = 0
        self._attention: PagedAttention | None = None

    def __call__(
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
        """Write the attention of the step's tokens to `output` and return it; vLLM's signature."""
        is_ours = (
            attn_metadata is not None
            and attn_metadata.causal is True
            and attn_metadata.dynamic_causal is None
            and output_scale is None
            and output_block_scale is None
            and is_made_for(self._impl, layer, query.dtype)
        )
        if not is_ours:
            scales = (output_scale, output_block_scale)
            rest = (query, key, value, kv_cache, attn_metadata, output, *scales)
            found: Tensor = self._theirs(self._impl, layer, *rest)
            return found
        count = attn_metadata.num_actual_tokens
        attention = self._over(kv_cache)
        attention(query[:count], _requests_of(attn_metadata), output[:count])
        return output

    def _over(self, kv_cache: Tensor) -> PagedAttention:
        if self._attention is None or self._address != kv_cache.data_ptr():
            blocks, heads, tokens, _ = kv_cache.shape
            keys, values = kv_cache.view(blocks, heads, 2 * tokens, -1).chunk(2, dim=2)
            self._address = kv_cache.data_ptr()
            self._attention = PagedAttention(
                keys, values, heads=self._impl.num_heads, scale=self._impl.scale
            )
        return self._attention


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


def _requests_of(metadata: Any) -> StepRequests:
    """Return the step's requests, shared by its layers; vLLM's drafters may replace the tensors."""
    tensors = (metadata.query_start_loc, metadata.seq_lens, metadata.block_table)
    found: StepRequests | None = metadata.__dict__.get("specgate_requests")
    if found is None or not found.are(*tensors):
        found = metadata.specgate_requests = StepRequests(*tensors)
    return found
