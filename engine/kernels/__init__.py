"""What a target computes on a CPU: a few tokens more in a step cost next to nothing."""

from engine.kernels.attention import PagedAttention, StepRequests, attention_kernels
from engine.kernels.linear import PackedLinear, is_supported, linear_kernels, multiplies_pairs

__all__ = [
    "PackedLinear",
    "PagedAttention",
    "StepRequests",
    "attention_kernels",
    "is_supported",
    "linear_kernels",
    "multiplies_pairs",
]
