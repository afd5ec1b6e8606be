"""CPU kernels of the target model, made so that extra tokens in a step cost almost nothing."""

from engine.kernels.attention import PagedAttention, StepRequests, attention_kernels
from engine.kernels.linear import PackedLinear, is_supported, linear_kernels, tiles

__all__ = [
    "PackedLinear",
    "PagedAttention",
    "StepRequests",
    "attention_kernels",
    "is_supported",
    "linear_kernels",
    "tiles",
]
