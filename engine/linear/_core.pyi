"""The compiled core: products with packed weights. The work is done in core/ (C++20).

Nothing but the kernel's name is checked: numbers are given by the address of their memory.
"""

class PackedFloat32:
    """A copy of a weight, (out, in), row by row, in the layout of a kernel.

    Args:
        kernel: One of `kernels()`.
        values: Address of the weight.

    Raises:
        ValueError: The processor has no such kernel.
    """

    def __init__(self, kernel: str, values: int, out: int, in_: int) -> None: ...
    @staticmethod
    def kernels() -> list[str]:
        """Name those that this processor has, the best first."""

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
    """The same where all is bfloat16, which is widened; products are added up in float32."""

    def __init__(self, kernel: str, values: int, out: int, in_: int) -> None: ...
    @staticmethod
    def kernels() -> list[str]: ...
    def multiply(self, rows: int, stride: int, count: int, bias: int, outputs: int) -> None: ...

class PackedPairs:
    """The same for processors that multiply bfloat16 themselves, two products at once."""

    def __init__(self, kernel: str, values: int, out: int, in_: int) -> None: ...
    @staticmethod
    def kernels() -> list[str]: ...
    def multiply(self, rows: int, stride: int, count: int, bias: int, outputs: int) -> None: ...
