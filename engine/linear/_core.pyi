"""The compiled core: products with packed weights. The work is done in core/ (C++20)."""

from torch import Tensor

def is_supported() -> bool:
    """Whether this processor has a kernel: AVX2 with FMA, or AVX-512."""

class PackedWeight:
    """A copy of a weight, float32 (out, in), contiguous, in the layout of this processor's kernel.

    Raises:
        RuntimeError: The processor has no kernel.
    """

    def __init__(self, weight: Tensor) -> None: ...
    def multiply(self, rows: int, stride: int, count: int, bias: int, outputs: int) -> None:
        """Write the products, float32 (count, out), of rows, float32 (count, in), plus a bias.

        Nothing is checked: `rows`, `bias` (0 for none) and `outputs` are addresses of memory.

        Args:
            stride: Floats from a row to the next.
        """
