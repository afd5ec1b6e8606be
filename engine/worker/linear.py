"""Replaces vLLM's linear layers on CPUs with our matrix products (docs/adr/0028).

With oneDNN, which vLLM 0.32 uses, a step of eight tokens takes 1.5 times as long as a step of one
token, and its sums depend on the number of rows. Ours use one kernel for every number of rows, so
results are batch-invariant. Where a model comes with the codes of its weights, the products read
those, and the results stay the same (docs/adr/0050).
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from vllm.model_executor.layers import utils

from engine.kernels import Codes, PackedLinear, coded_kernels, linear_kernels
from engine.worker.codes import ModelCodes


def pack_linear_layers(folder: Path | None = None) -> None:
    """Compute layers that are loaded from now on with our products; idempotent.

    Requires eager execution: a graph compiled by torch would not contain our products.

    Args:
        folder: The model's, where its weights' codes may be.
    """
    theirs = utils.dispatch_cpu_unquantized_gemm
    if not isinstance(theirs, Dispatch):
        codes = ModelCodes(folder) if folder is not None and coded_kernels() else None
        utils.dispatch_cpu_unquantized_gemm = Dispatch(theirs, codes)


def linear_kernel(dtype: torch.dtype) -> str:
    """Name the kernel that serves layers of a dtype that are loaded now: ours, or `vllm`."""
    is_ours = isinstance(utils.dispatch_cpu_unquantized_gemm, Dispatch)
    return next(iter(linear_kernels(dtype)), "vllm") if is_ours else "vllm"


class Dispatch:
    """Chooses what computes a layer; replaces vLLM's `dispatch_cpu_unquantized_gemm`.

    Args:
        theirs: vLLM's function, for layers of a dtype or shape that we have no kernel for.
        codes: Of the model's weights.
    """

    def __init__(self, theirs: Callable[..., None], codes: ModelCodes | None = None) -> None:
        self._theirs = theirs
        self._codes = codes

    def __call__(self, layer: Any, remove_weight: bool) -> None:
        """Set `layer.cpu_linear`, and drop the layer's own weight if requested."""
        weight = layer.weight
        if weight.is_meta or weight.ndim != 2 or not linear_kernels(weight.dtype):
            self._theirs(layer, remove_weight)
            return
        packed = PackedLinear(weight, codes=self._codes_of(layer))
        layer.cpu_linear = functools.partial(_compute, packed)
        if remove_weight:
            layer.weight = torch.nn.Parameter(weight.new_empty(0), requires_grad=False)

    def _codes_of(self, layer: Any) -> list[Codes]:
        """The codes that may be those of a layer; packing compares them with its weight."""
        if self._codes is None or layer.weight.dtype is not torch.bfloat16:
            return []
        out, inputs = layer.weight.shape
        found = self._codes.of_layer(getattr(layer, "prefix", ""))
        fits = sum(part.codes.shape[0] for part in found) <= out
        return found if fits and all(part.inputs == inputs for part in found) else []


def is_ours(layer: Any) -> bool:
    """Tell whether our products compute a layer."""
    compute = getattr(layer, "cpu_linear", None)
    return isinstance(compute, functools.partial) and compute.func is _compute


def _compute(packed: PackedLinear, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute a layer; vLLM's signature. `weight` is what vLLM keeps of it, usually empty."""
    # With AMX vLLM converts some biases to float32 for its own products; converting back is exact.
    return packed(inputs, None if bias is None else bias.to(inputs.dtype))
