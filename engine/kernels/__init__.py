"""CPU kernels of the target model, made so that extra tokens in a step cost almost nothing."""

from engine.kernels.attention import PagedAttention, StepRequests, attention_kernels
from engine.kernels.decoder import Decoder, DecoderLayer, DecoderSizes, Linear
from engine.kernels.linear import (
    Codes,
    PackedLinear,
    coded_kernels,
    is_supported,
    linear_kernels,
    tiles,
)
from engine.kernels.rows import greatest_of_rows

__all__ = [
    "Codes",
    "Decoder",
    "DecoderLayer",
    "DecoderSizes",
    "Linear",
    "PackedLinear",
    "PagedAttention",
    "StepRequests",
    "attention_kernels",
    "coded_kernels",
    "greatest_of_rows",
    "is_supported",
    "linear_kernels",
    "tiles",
]
