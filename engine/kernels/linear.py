"""A linear layer whose weight is packed for the kernel of this processor."""

from collections.abc import Mapping

import torch  # first: the core uses the OpenMP runtime that torch loads
from torch import Tensor

from engine._core.kernels import PackedBFloat16, PackedFloat32, PackedPairs, tiles

__all__ = ["PackedLinear", "is_supported", "linear_kernels", "tiles"]

_Packed = PackedFloat32 | PackedBFloat16 | PackedPairs
# By dtype, best first.
_KINDS: Mapping[torch.dtype, tuple[type[_Packed], ...]] = {
    torch.float32: (PackedFloat32,),
    torch.bfloat16: (PackedPairs, PackedBFloat16),
}


def linear_kernels(dtype: torch.dtype) -> list[str]:
    """Return the names of this processor's kernels for a dtype, best first; empty for none."""
    return [name for kind in _KINDS.get(dtype, ()) for name in kind.kernels()]


def is_supported() -> bool:
    """Tell whether this processor has kernels: AVX2 with FMA, or AVX-512."""
    return bool(linear_kernels(torch.float32))


class PackedLinear:
    """Computes x W^T + b on a CPU with all of torch's threads, accumulated in float32.

    Results are batch-invariant: an output is summed in the same order for any number of rows, so a
    row's result is bit-identical whatever rows are beside it.

    Args:
        weight: float32 or bfloat16, shape (out, in); copied.
        kernel: One of `linear_kernels(weight.dtype)`; by default the first.

    Raises:
        ValueError: A shape or dtype is not supported, or this processor has no such kernel.
    """

    __slots__ = ("_in", "core", "dtype", "out")

    def __init__(self, weight: Tensor, kernel: str | None = None) -> None:
        if weight.dim() != 2 or weight.dtype not in _KINDS:
            raise ValueError(f"weight: got {weight.dtype} {tuple(weight.shape)}")
        kinds = {name: kind for kind in _KINDS[weight.dtype] for name in kind.kernels()}
        chosen = next(iter(kinds), None) if kernel is None else kernel
        if chosen is None or chosen not in kinds:
            raise ValueError(f"kernel: no {chosen} for {weight.dtype}; available are {list(kinds)}")
        self.out, self._in = weight.shape
        self.dtype = weight.dtype
        values = weight.detach().contiguous()
        self.core: _Packed = kinds[chosen](chosen, values.data_ptr(), self.out, self._in)

    def __call__(self, inputs: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the layer's outputs, shape (..., out), dtype of the weight.

        Args:
            inputs: Shape (..., in), dtype of the weight.
            bias: Shape (out,), same dtype.

        Raises:
            ValueError: A shape or dtype is wrong.
        """
        rows = inputs if inputs.dim() == 2 else inputs.reshape(-1, inputs.shape[-1])
        if rows.shape[1] != self._in or rows.dtype is not self.dtype:
            raise ValueError(
                f"inputs: expected {self.dtype} (..., {self._in}), "
                f"got {inputs.dtype} {tuple(inputs.shape)}"
            )
        if rows.stride(1) != 1:
            rows = rows.contiguous()
        if bias is not None:
            if bias.shape != (self.out,) or bias.dtype is not self.dtype:
                raise ValueError(
                    f"bias: expected {self.dtype} ({self.out},), "
                    f"got {bias.dtype} {tuple(bias.shape)}"
                )
            bias = bias.contiguous()
        count = rows.shape[0]
        outputs = torch.empty((*inputs.shape[:-1], self.out), dtype=self.dtype)
        if count:
            at = 0 if bias is None else bias.data_ptr()
            self.core.multiply(rows.data_ptr(), rows.stride(0), count, at, outputs.data_ptr())
        return outputs
