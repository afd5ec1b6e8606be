"""The compiled core: products with packed weights. The work is done in core/ (C++20).

Nothing is checked: numbers are given by the address of their memory.
"""

def is_supported() -> bool:
    """Whether this processor has a kernel: AVX2 with FMA, or AVX-512."""

class PackedFloat32:
    """A copy of a weight, (out, in), row by row, in the layout of this processor's kernel.

    Raises:
        RuntimeError: The processor has no kernel.
    """

    def __init__(self, values: int, out: int, in_: int) -> None: ...
    def multiply(self, rows: int, stride: int, count: int, bias: int, outputs: int) -> None:
        """Write the products (count, out) of rows (count, in), plus a bias (out,).

        Args:
            rows: Their address.
            stride: Numbers from a row to the next.
            count: Of rows.
            bias: Its address, 0 for none.
            outputs: Where to write.
        """

class PackedBFloat16:
    """The same where all is bfloat16; products are added up in float32."""

    def __init__(self, values: int, out: int, in_: int) -> None: ...
    def multiply(self, rows: int, stride: int, count: int, bias: int, outputs: int) -> None: ...
