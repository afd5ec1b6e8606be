"""Has vLLM compute the target's linear layers on a CPU with our products (docs/adr/0028).

Those that vLLM 0.32 takes, oneDNN's, make a step of a few tokens half as long again as one of one.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from vllm.model_executor.layers import utils

from engine.linear import PackedLinear, is_supported


def pack_linear_layers() -> None:
    """Have layers that are loaded from now on computed by us where we can; safe to repeat.

    They are computed while Python runs: a graph that torch compiles would not know them.
    """
    if is_supported() and not packs_linear_layers():
        utils.dispatch_cpu_unquantized_gemm = _Dispatch(utils.dispatch_cpu_unquantized_gemm)


def packs_linear_layers() -> bool:
    """Whether layers that are loaded now are computed by us, those in float32 at least."""
    return isinstance(utils.dispatch_cpu_unquantized_gemm, _Dispatch)


class _Dispatch:
    """Chooses what computes a layer, in place of vLLM's function of that name."""

    def __init__(self, otherwise: Callable[..., None]) -> None:
        self._otherwise = otherwise

    def __call__(self, layer: Any, remove_weight: bool) -> None:
        weight = layer.weight
        if weight.is_meta or weight.ndim != 2 or weight.dtype is not torch.float32:
            self._otherwise(layer, remove_weight)
            return
        layer.cpu_linear = functools.partial(_compute, PackedLinear(weight))
        if remove_weight:
            layer.weight = torch.nn.Parameter(weight.new_empty(0), requires_grad=False)


def _compute(
    packed: PackedLinear, inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """What vLLM calls; the weight is what it keeps, and mostly empty."""
    return packed(inputs, bias)
