"""A linear layer whose weight is packed for the kernel of this processor."""

import torch
from torch import Tensor

from engine.linear._core import PackedWeight


class PackedLinear:
    """Computes x W^T + b in float32 on a CPU, with all of torch's threads.

    Each output is added up in the same order however many rows there are, so a row's products
    are the same, bit for bit, beside whichever others it is computed.

    Args:
        weight: float32, shape (out, in); copied.

    Raises:
        RuntimeError: This processor has no kernel (`is_supported`).
    """

    __slots__ = ("_in", "_out", "_weight")

    def __init__(self, weight: Tensor) -> None:
        self._out, self._in = weight.shape
        self._weight = PackedWeight(weight.detach().contiguous())

    def __call__(self, inputs: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the layer's outputs, float32, shape (..., out).

        Args:
            inputs: float32, shape (..., in).
            bias: float32, shape (out,), contiguous.

        Raises:
            ValueError: Of another shape or dtype.
        """
        rows = inputs if inputs.dim() == 2 else inputs.reshape(-1, inputs.shape[-1])
        if rows.shape[1] != self._in or rows.dtype is not torch.float32:
            raise ValueError(
                f"inputs: expected float32 (..., {self._in}), "
                f"got {inputs.dtype} {tuple(inputs.shape)}"
            )
        if rows.stride(1) != 1:
            rows = rows.contiguous()
        if bias is not None:
            if bias.shape != (self._out,) or bias.dtype is not torch.float32:
                raise ValueError(
                    f"bias: expected float32 ({self._out},), got {bias.dtype} {tuple(bias.shape)}"
                )
            bias = bias.contiguous()
        count = rows.shape[0]
        outputs = torch.empty((*inputs.shape[:-1], self._out), dtype=torch.float32)
        if count:
            at = 0 if bias is None else bias.data_ptr()
            self._weight.multiply(rows.data_ptr(), rows.stride(0), count, at, outputs.data_ptr())
        return outputs
