"""Replaces vLLM's linear layers on CPUs with our matrix products (docs/adr/0028).

With oneDNN, which vLLM 0.32 uses, a step of eight tokens takes 1.5 times as long as a step of one
token. Our products serve all steps, with one exception: in bfloat16 on processors with instructions
that only oneDNN uses (AMX), the worker measures at start up to how many rows ours are faster. If
they are not faster for all sizes, the weights are kept in both layouts, for small models only.
"""

import functools
import logging
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from vllm.model_executor.layers import utils

from engine.kernels import PackedLinear, is_supported, multiplies_pairs
from engine.processor import has_bfloat16_tiles, multiplies_bfloat16

_log = logging.getLogger(__name__)

_Compute = Callable[[Tensor, Tensor, Tensor | None], Tensor]

_SIZES = (1, 4, 8, 16, 32, 64, 256)
_ROUNDS = 3
_SHAPE = (2048, 1024)
_WEIGHTS = 24  # 96 MiB in bfloat16: exceeds the caches, like the weights of a model
# Accepted slowdown of our products; avoiding the second copy of the weights is worth more.
_LONGER = 1.1

_MOST_KEPT_TWICE = 4 << 30  # bytes

ALL_ROWS = 1 << 30


def pack_linear_layers(dtype: torch.dtype, weight_bytes: int) -> None:
    """Compute layers that are loaded from now on with our products where faster; idempotent.

    Requires eager execution: a graph compiled by torch would not contain our products.

    Args:
        dtype: Dtype of the model.
        weight_bytes: Size of the model's weights on this rank; 0 if unknown.
    """
    theirs = utils.dispatch_cpu_unquantized_gemm
    if not is_supported() or isinstance(theirs, Dispatch):
        return
    most = {torch.float32: ALL_ROWS, torch.bfloat16: ALL_ROWS}
    if dtype is torch.bfloat16 and _has_better():
        most[dtype] = _rows_that_pay(theirs)
        if most[dtype] < ALL_ROWS and not 0 < weight_bytes <= _MOST_KEPT_TWICE:
            most[dtype] = 0
        rows = "all rows" if most[dtype] == ALL_ROWS else f"up to {most[dtype]} rows"
        _log.info("specgate computes linear layers for %s", rows)
    utils.dispatch_cpu_unquantized_gemm = Dispatch(theirs, most)


def packed_rows(dtype: torch.dtype) -> int:
    """Return the largest number of rows that our products serve for this dtype; 0 for none."""
    chosen = utils.dispatch_cpu_unquantized_gemm
    return chosen.most.get(dtype, 0) if isinstance(chosen, Dispatch) else 0


class Dispatch:
    """Chooses what computes a layer; replaces vLLM's `dispatch_cpu_unquantized_gemm`.

    Args:
        theirs: vLLM's function.
        most: Largest number of rows for our products, by dtype of the weight. Below `ALL_ROWS` the
            weight is kept in both layouts.
    """

    def __init__(self, theirs: Callable[..., None], most: dict[torch.dtype, int]) -> None:
        self._theirs = theirs
        self.most = most

    def __call__(self, layer: Any, remove_weight: bool) -> None:
        """Set `layer.cpu_linear`, and drop the layer's own weight if requested."""
        weight = layer.weight
        most = 0 if weight.is_meta or weight.ndim != 2 else self.most.get(weight.dtype, 0)
        packed = PackedLinear(weight) if most else None
        if packed is None or most < ALL_ROWS:
            self._theirs(layer, remove_weight)
        elif remove_weight:
            layer.weight = torch.nn.Parameter(weight.new_empty(0), requires_grad=False)
        if packed is not None:
            otherwise = None if most == ALL_ROWS else layer.cpu_linear
            layer.cpu_linear = functools.partial(_compute, packed, most, otherwise)


def _compute(
    packed: PackedLinear,
    most: int,
    otherwise: _Compute | None,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
) -> Tensor:
    """Compute a layer; vLLM's signature. `weight` is what vLLM keeps of it, usually empty."""
    if otherwise is not None and inputs.numel() > most * inputs.shape[-1]:
        return otherwise(inputs, weight, bias)
    # With AMX vLLM converts some biases to float32 for its own products; converting back is exact.
    return packed(inputs, None if bias is None else bias.to(inputs.dtype))


def _has_better() -> bool:
    """Tell whether this processor may have faster bfloat16 instructions than our kernels use."""
    return has_bfloat16_tiles() or (multiplies_bfloat16() and not multiplies_pairs())


def _rows_that_pay(theirs: Callable[..., None]) -> int:
    """Measure up to how many rows our bfloat16 products are about as fast as vLLM's."""
    weight = torch.rand(_SHAPE).sub_(0.5).to(torch.bfloat16)
    layers = [
        SimpleNamespace(weight=torch.nn.Parameter(weight.clone(), requires_grad=False))
        for _ in range(_WEIGHTS)
    ]
    ours = [PackedLinear(layer.weight) for layer in layers]
    for layer in layers:
        theirs(layer, True)
    return rows_that_pay(
        lambda rows: [packed(rows) for packed in ours],
        lambda rows: [layer.cpu_linear(rows, layer.weight, None) for layer in layers],
        sizes=_SIZES,
    )


def rows_that_pay(
    ours: Callable[[Tensor], object],
    theirs: Callable[[Tensor], object],
    *,
    sizes: Sequence[int],
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """Return the largest size for which `ours` is about as fast; `ALL_ROWS` if it always is.

    Args:
        ours: Computes layers with 1,024 inputs each for bfloat16 rows of shape (size, 1024).
        theirs: The same with vLLM's products.
        sizes: Numbers of rows, rising.
        clock: Returns seconds.
    """
    most = 0
    for size in sizes:
        rows = torch.rand(size, _SHAPE[1]).to(torch.bfloat16)
        times: tuple[list[float], list[float]] = [], []
        for _ in range(_ROUNDS):
            for found, compute in zip(times, (ours, theirs), strict=True):
                began = clock()
                compute(rows)
                found.append(clock() - began)
        if min(times[0]) > min(times[1]) * _LONGER:
            return most
        most = size
    return ALL_ROWS
