"""The compiled core: what a target computes on CPUs. The work is done in core/ (C++20).

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

class Requests:
    """The requests of a step: three tensors of int32, by their addresses."""

    def __init__(
        self, starts: int, lengths: int, count: int, blocks: int, blocks_stride: int
    ) -> None: ...

class AttentionFloat32:
    """A layer's causal attention over its paged cache.

    Args:
        kernel: One of `kernels()`.
        keys: Address of the first block's.
        values: Likewise.
        block_stride: Numbers from a block to the next.
        head_stride: Numbers from a head of a block to the next.

    Raises:
        ValueError: The processor has no such kernel.
    """

    def __init__(
        self,
        kernel: str,
        keys: int,
        values: int,
        block_stride: int,
        head_stride: int,
        block_tokens: int,
        heads: int,
        kv_heads: int,
        dim: int,
        scale: float,
    ) -> None: ...
    @staticmethod
    def kernels() -> list[str]:
        """Name those that this processor has, the best first."""

    def attend(
        self,
        requests: Requests,
        queries: int,
        queries_stride: int,
        outputs: int,
        outputs_stride: int,
    ) -> None:
        """Write what queries (tokens, heads, dim) get; strides are from a token to the next."""

class AttentionBFloat16:
    """The same where all is bfloat16; sums are in float32."""

    def __init__(
        self,
        kernel: str,
        keys: int,
        values: int,
        block_stride: int,
        head_stride: int,
        block_tokens: int,
        heads: int,
        kv_heads: int,
        dim: int,
        scale: float,
    ) -> None: ...
    @staticmethod
    def kernels() -> list[str]: ...
    def attend(
        self,
        requests: Requests,
        queries: int,
        queries_stride: int,
        outputs: int,
        outputs_stride: int,
    ) -> None: ...
