"""A linear layer whose weight is packed for the kernel of this processor."""

from collections.abc import Mapping

import torch  # first: the core takes the OpenMP runtime that comes with it
from torch import Tensor

from engine.linear._core import PackedBFloat16, PackedFloat32, is_supported

__all__ = ["PackedLinear", "is_supported"]

_Packed = PackedFloat32 | PackedBFloat16
_KINDS: Mapping[torch.dtype, type[_Packed]] = {
    torch.float32: PackedFloat32,
    torch.bfloat16: PackedBFloat16,
}


class PackedLinear:
    """Computes x W^T + b on a CPU, with all of torch's threads; adds up in float32.

    Each output is added up in the same order however many rows there are, so a row's products
    are the same, bit for bit, beside whichever others it is computed.

    Args:
        weight: float32 or bfloat16, shape (out, in); copied.

    Raises:
        RuntimeError: This processor has no kernel (`is_supported`).
        ValueError: Of another shape or dtype.
    """

    __slots__ = ("_dtype", "_in", "_out", "_weight")

    def __init__(self, weight: Tensor) -> None:
        if weight.dim() != 2 or weight.dtype not in _KINDS:
            raise ValueError(f"weight: got {weight.dtype} {tuple(weight.shape)}")
        self._out, self._in = weight.shape
        self._dtype = weight.dtype
        values = weight.detach().contiguous()
        self._weight: _Packed = _KINDS[weight.dtype](values.data_ptr(), self._out, self._in)

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
