"""Has vLLM compute the target's linear layers on a CPU with our products (docs/adr/0028).

Those that vLLM 0.32 takes, oneDNN's, make a step of eight tokens half as long again as one of one.
Ours are taken for all steps, except in bfloat16 on a processor with instructions for it that only
oneDNN uses (AMX): up to how many rows ours pay is measured there when a worker starts. If that is
not all of them the weights are kept in both layouts, so only those of small models are.
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
_WEIGHTS = 24  # 96 MiB in bfloat16: more than the caches hold, as of a model
# How much longer ours may take: less than it costs to keep the weights twice.
_LONGER = 1.1

_MOST_KEPT_TWICE = 4 << 30  # bytes

ALL_ROWS = 1 << 30


def pack_linear_layers(dtype: torch.dtype, weight_bytes: int) -> None:
    """Have layers that are loaded from now on computed by us where that pays; safe to repeat.

    They are computed while Python runs: a graph that torch compiles would not know them.

    Args:
        dtype: The model's.
        weight_bytes: Of the model on this rank, as far as is known; 0 where it is not.
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
        _log.info("specgate computes linear layers of %s", rows)
    utils.dispatch_cpu_unquantized_gemm = Dispatch(theirs, most)


def packed_rows(dtype: torch.dtype) -> int:
    """Return up to how many rows layers that are loaded now are computed by us; 0 for none."""
    chosen = utils.dispatch_cpu_unquantized_gemm
    return chosen.most.get(dtype, 0) if isinstance(chosen, Dispatch) else 0


class Dispatch:
    """Chooses what computes a layer, in place of vLLM's function of that name.

    Args:
        theirs: vLLM's function.
        most: Up to how many rows ours is taken, by the weight's dtype. Where that is not `ALL_ROWS`
            the weight is kept twice.
    """

    def __init__(self, theirs: Callable[..., None], most: dict[torch.dtype, int]) -> None:
        self._theirs = theirs
        self.most = most

    def __call__(self, layer: Any, remove_weight: bool) -> None:
        """Set `layer.cpu_linear`, and drop the layer's own weight if that is asked."""
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
    """What vLLM calls; the weight is what it keeps of it, and mostly empty."""
    if otherwise is not None and inputs.numel() > most * inputs.shape[-1]:
        return otherwise(inputs, weight, bias)
    # With AMX vLLM makes some biases float32 for its own products; they were not rounded by that.
    return packed(inputs, None if bias is None else bias.to(inputs.dtype))


def _has_better() -> bool:
    """Whether this processor may have better instructions for bfloat16 than we use."""
    return has_bfloat16_tiles() or (multiplies_bfloat16() and not multiplies_pairs())


def _rows_that_pay(theirs: Callable[..., None]) -> int:
    """Measure up to how many rows our products in bfloat16 take little longer than vLLM's."""
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
    """Return the size up to which `ours` takes little longer; `ALL_ROWS` if that is the last.

    Args:
        ours: Computes layers of 1,024 bfloat16 inputs for some rows.
        theirs: The same.
        sizes: Rows, rising.
        clock: Seconds.
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
