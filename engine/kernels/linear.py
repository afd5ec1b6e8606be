"""A linear layer whose weight is packed for the kernel of this processor."""

from collections.abc import Mapping

import torch
from torch import Tensor

from engine._core.kernels import PackedBFloat16, PackedFloat32, PackedPairs

__all__ = ["PackedLinear", "is_supported", "linear_kernels", "multiplies_pairs"]

_Packed = PackedFloat32 | PackedBFloat16 | PackedPairs
# By dtype, the best first.
_KINDS: Mapping[torch.dtype, tuple[type[_Packed], ...]] = {
    torch.float32: (PackedFloat32,),
    torch.bfloat16: (PackedPairs, PackedBFloat16),
}


def linear_kernels(dtype: torch.dtype) -> list[str]:
    """Name what computes layers of a dtype on this processor, the best first; empty for none."""
    return [name for kind in _KINDS.get(dtype, ()) for name in kind.kernels()]


def is_supported() -> bool:
    """Whether this processor has kernels: AVX2 with FMA, or AVX-512."""
    return bool(linear_kernels(torch.float32))


def multiplies_pairs() -> bool:
    """Whether its kernels multiply bfloat16 themselves, two products at once: AVX512-BF16."""
    return bool(PackedPairs.kernels())


class PackedLinear:
    """Computes x W^T + b on a CPU, with all of torch's threads; adds up in float32.

    Each output is added up in the same order however many rows there are, so a row's products
    are the same, bit for bit, beside whichever others it is computed.

    Args:
        weight: float32 or bfloat16, shape (out, in); copied.
        kernel: One of `linear_kernels(weight.dtype)`; the first without.

    Raises:
        ValueError: Of another shape or dtype, or this processor has no such kernel.
    """

    __slots__ = ("_dtype", "_in", "_out", "_weight")

    def __init__(self, weight: Tensor, kernel: str | None = None) -> None:
        if weight.dim() != 2 or weight.dtype not in _KINDS:
            raise ValueError(f"weight: got {weight.dtype} {tuple(weight.shape)}")
        kinds = {name: kind for kind in _KINDS[weight.dtype] for name in kind.kernels()}
        chosen = next(iter(kinds), None) if kernel is None else kernel
        if chosen is None or chosen not in kinds:
            raise ValueError(f"kernel: {chosen} for {weight.dtype}; there is {list(kinds)}")
        self._out, self._in = weight.shape
        self._dtype = weight.dtype
        values = weight.detach().contiguous()
        self._weight = kinds[chosen](chosen, values.data_ptr(), self._out, self._in)

    def __call__(self, inputs: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the layer's outputs, shape (..., out), of the weight's dtype.

        Args:
            inputs: Shape (..., in), of the weight's dtype.
            bias: Shape (out,), likewise.

        Raises:
            ValueError: Of another shape or dtype.
        """
        rows = inputs if inputs.dim() == 2 else inputs.reshape(-1, inputs.shape[-1])
        if rows.shape[1] != self._in or rows.dtype is not self._dtype:
            raise ValueError(
                f"inputs: expected {self._dtype} (..., {self._in}), "
                f"got {inputs.dtype} {tuple(inputs.shape)}"
            )
        if rows.stride(1) != 1:
            rows = rows.contiguous()
        if bias is not None:
            if bias.shape != (self._out,) or bias.dtype is not self._dtype:
                raise ValueError(
                    f"bias: expected {self._dtype} ({self._out},), "
                    f"got {bias.dtype} {tuple(bias.shape)}"
                )
            bias = bias.contiguous()
        count = rows.shape[0]
        outputs = torch.empty((*inputs.shape[:-1], self._out), dtype=self._dtype)
        if count:
            at = 0 if bias is None else bias.data_ptr()
            self._weight.multiply(rows.data_ptr(), rows.stride(0), count, at, outputs.data_ptr())
        return outputs
