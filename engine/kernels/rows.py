"""What is done with single rows after the last product."""

from collections.abc import Callable, Mapping

import torch  # first: the core uses the OpenMP runtime that torch loads
from torch import Tensor

from engine._core.kernels import greatest_bfloat16, greatest_float32
from engine.kernels.linear import is_supported

__all__ = ["greatest_of_rows"]

_Find = Callable[[int, int, int, int, int], None]
_FINDERS: Mapping[torch.dtype, _Find] = {
    torch.float32: greatest_float32,
    torch.bfloat16: greatest_bfloat16,
}
_SHORTEST = 16


def greatest_of_rows(rows: Tensor) -> Tensor:
    """Return where each row of a tensor on a CPU has its greatest number: there first, in a tie.

    Like `torch.argmax`, which takes some 40 times as long and wakes other threads for it. Without
    a kernel for the rows `torch.argmax` finds them.

    Args:
        rows: Shape (rows, numbers). NaN counts as the least, unlike in torch.

    Returns:
        int64, shape (rows,).
    """
    find = _FINDERS.get(rows.dtype)
    count, size = rows.shape
    if find is None or size < _SHORTEST or rows.stride(1) != 1 or not is_supported():
        return rows.to(torch.float32).argmax(dim=-1)
    found = torch.empty(count, dtype=torch.int64)
    find(rows.data_ptr(), rows.stride(0), count, size, found.data_ptr())
    return found
