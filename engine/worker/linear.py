"""Replaces vLLM's linear layers on CPUs with our matrix products (docs/adr/0028).

With oneDNN, which vLLM 0.32 uses, a step of eight tokens takes 1.5 times as long as a step of one
token, and its sums depend on the number of rows. Ours use one kernel for every number of rows, so
results are batch-invariant.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from vllm.model_executor.layers import utils

from engine.kernels import PackedLinear, linear_kernels


def pack_linear_layers() -> None:
    """Compute layers that are loaded from now on with our products; idempotent.

    Requires eager execution: a graph compiled by torch would not contain our products.
    """
    theirs = utils.dispatch_cpu_unquantized_gemm
    if not isinstance(theirs, Dispatch):
        utils.dispatch_cpu_unquantized_gemm = Dispatch(theirs)


def linear_kernel(dtype: torch.dtype) -> str:
    """Name the kernel that serves layers of a dtype that are loaded now: ours, or `vllm`."""
    is_ours = isinstance(utils.dispatch_cpu_unquantized_gemm, Dispatch)
    return next(iter(linear_kernels(dtype)), "vllm") if is_ours else "vllm"


class Dispatch:
    """Chooses what computes a layer; replaces vLLM's `dispatch_cpu_unquantized_gemm`.

    Args:
        theirs: vLLM's function, for layers of a dtype or shape that we have no kernel for.
    """

    def __init__(self, theirs: Callable[..., None]) -> None:
        self._theirs = theirs

    def __call__(self, layer: Any, remove_weight: bool) -> None:
        """Set `layer.cpu_linear`, and drop the layer's own weight if requested."""
        weight = layer.weight
        if weight.is_meta or weight.ndim != 2 or not linear_kernels(weight.dtype):
            self._theirs(layer, remove_weight)
            return
        layer.cpu_linear = functools.partial(_compute, PackedLinear(weight))
        if remove_weight:
            layer.weight = torch.nn.Parameter(weight.new_empty(0), requires_grad=False)


def is_ours(layer: Any) -> bool:
    """Tell whether our products compute a layer."""
    compute = getattr(layer, "cpu_linear", None)
    return isinstance(compute, functools.partial) and compute.func is _compute


def _compute(packed: PackedLinear, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute a layer; vLLM's signature. `weight` is what vLLM keeps of it, usually empty."""
    # With AMX vLLM converts some biases to float32 for its own products; converting back is exact.
    return packed(inputs, None if bias is None else bias.to(inputs.dtype))
