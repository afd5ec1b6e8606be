"""A weight matrix in the form that multiplies fastest with few rows."""

import torch
from torch import Tensor
from torch.nn import functional

from engine.heads.pieces import by_rows

FEW_ROWS = 8
"""Most rows for which int8 weights are quicker than bfloat16 ones on CPUs (adr/0015)."""

# torch's kernel reads 16 values at a time, without a check, and would read past the end.
_STRIDE = 16


class Matrix:
    """Multiplies rows with a weight: x W^T.

    On CPUs in bfloat16, few rows use a copy of the weight in int8 (symmetric, one scale per output
    row): reading the weight dominates the time.

    Args:
        weight: Shape (out, in); kept, not copied. Later changes may have no effect.
    """

    __slots__ = ("_int8", "_scales", "_weight")

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight.detach()
        self._int8: Tensor | None = None
        self._scales: Tensor | None = None
        is_slow = weight.device.type == "cpu" and weight.dtype == torch.bfloat16
        if is_slow and weight.shape[1] % _STRIDE == 0:
            self._int8, self._scales = by_rows(self._weight, _quantise)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the products, shape (m, out).

        Args:
            rows: Shape (m, in), contiguous, in the weight's dtype, and not a slice of a larger
                tensor: torch's int8 kernel needs aligned memory and does not check.
        """
        if self._int8 is not None and rows.shape[0] <= FEW_ROWS:
            return torch.ops.aten._weight_int8pack_mm(rows, self._int8, self._scales)
        return functional.linear(rows, self._weight)

    @property
    def quantised(self) -> tuple[Tensor, Tensor] | None:
        """The weight in int8, (out, in), and the scale of each output row, (out,)."""
        if self._int8 is None or self._scales is None:
            return None
        return self._int8, self._scales


def _quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    largest = weight.float().abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny)
    # Rounded before they are used, so that the int8 values compensate for the rounding.
    scales = (largest / 127).to(weight.dtype)
    values = (weight.float() / scales.float()[:, None]).round().clamp(-127, 127)
    return values.to(torch.int8), scales
