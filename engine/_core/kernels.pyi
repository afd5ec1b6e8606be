"""The compiled core: the target's CPU kernels, implemented in core/ (C++20).

Arrays are passed by address. Only the name of the kernel is checked, unless the module was built
with SPECGATE_CHECKED: then a block id or a request outside of its range raises IndexError, and a
wrong address or stride ValueError, before any memory is read. Without memory, a call raises
MemoryError.
"""

is_checked: bool
"""Whether it was."""

class PackedFloat32:
    """A copy of a weight, (out, in) row-major, in the layout of a kernel.

    Args:
        kernel: One of `kernels()`.
        values: Address of the weight.

    Raises:
        ValueError: This processor has no such kernel.
    """

    def __init__(self, kernel: str, values: int, out: int, in_: int) -> None: ...
    @staticmethod
    def kernels() -> list[str]:
        """Return the names of this processor's kernels, best first."""

    def multiply(self, rows: int, stride: int, count: int, bias: int, outputs: int) -> None:
        """Write the products (count, out) of rows (count, in), plus a bias (out,).

        Args:
            rows: Address of the rows.
            stride: Distance between rows, in numbers.
            count: Number of rows.
            bias: Address of the bias, 0 for none.
            outputs: Address to write to.
        """

class PackedBFloat16:
    """The same for bfloat16, which is widened; accumulates in float32."""

    def __init__(self, kernel: str, values: int, out: int, in_: int) -> None: ...
    @staticmethod
    def kernels() -> list[str]: ...
    def multiply(self, rows: int, stride: int, count: int, bias: int, outputs: int) -> None: ...

class PackedPairs:
    """The same for processors with bfloat16 instructions, two products at once."""

    def __init__(self, kernel: str, values: int, out: int, in_: int) -> None: ...
    @staticmethod
    def kernels() -> list[str]: ...
    def multiply(self, rows: int, stride: int, count: int, bias: int, outputs: int) -> None: ...

class Requests:
    """The requests of a step: addresses of three int32 tensors."""

    def __init__(
        self, starts: int, lengths: int, count: int, blocks: int, blocks_stride: int
    ) -> None: ...

class AttentionFloat32:
    """Causal attention of a layer over its paged KV cache.

    Args:
        kernel: One of `kernels()`.
        keys: Address of the first block's keys.
        values: Address of the first block's values.
        blocks: Number of blocks.
        block_stride: Distance between blocks, in numbers.
        head_stride: Distance between heads of a block, in numbers.

    Raises:
        ValueError: This processor has no such kernel.
    """

    def __init__(
        self,
        kernel: str,
        keys: int,
        values: int,
        blocks: int,
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
        """Return the names of this processor's kernels, best first."""

    def attend(
        self,
        requests: Requests,
        queries: int,
        queries_stride: int,
        outputs: int,
        outputs_stride: int,
        tokens: int,
    ) -> None:
        """Write the attention of queries (tokens, heads, dim); strides are between tokens."""

class AttentionBFloat16:
    """The same for bfloat16; accumulates in float32."""

    def __init__(
        self,
        kernel: str,
        keys: int,
        values: int,
        blocks: int,
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
        tokens: int,
    ) -> None: ...

def tiles() -> str:
    """Whether bfloat16 can be multiplied by AMX: usable, refused (by the system) or absent."""
