"""The compiled core: the target's CPU kernels, implemented in core/ (C++20).

Arrays are passed by address. Only the name of the kernel is checked, unless the module was built
with SPECGATE_CHECKED: then a block id or a request outside of its range raises IndexError, and a
wrong address or stride ValueError, before any memory is read. Without memory, a call raises
MemoryError.
"""

from collections.abc import Sequence

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

    @property
    def bytes(self) -> int:
        """Memory of the copy."""

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
    """The same for bfloat16, which is widened; accumulates in float32.

    Args:
        coded: Rows that are also given in codes: the first one, their number, bits of a code (4 or
            8), and the addresses of codes, scales and least numbers (0 for 8 bits).

    Raises:
        ValueError: Codes have another shape.
    """

    def __init__(
        self,
        kernel: str,
        values: int,
        out: int,
        in_: int,
        coded: Sequence[tuple[int, int, int, int, int, int]] = (),
    ) -> None: ...
    @staticmethod
    def kernels() -> list[str]: ...
    @property
    def bytes(self) -> int: ...
    def multiply(self, rows: int, stride: int, count: int, bias: int, outputs: int) -> None: ...

class PackedPairs:
    """The same for processors with bfloat16 instructions, two products at once."""

    def __init__(
        self,
        kernel: str,
        values: int,
        out: int,
        in_: int,
        coded: Sequence[tuple[int, int, int, int, int, int]] = (),
    ) -> None: ...
    @staticmethod
    def kernels() -> list[str]: ...
    @property
    def bytes(self) -> int: ...
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

def greatest_float32(rows: int, stride: int, count: int, size: int, outputs: int) -> None:
    """Write the index of the first of the greatest numbers of each row (count, size), as int64.

    Args:
        rows: Address of the rows.
        stride: Distance between rows, in numbers.
        count: Number of rows.
        size: Numbers of a row, at least 16.
        outputs: Address to write to.

    Raises:
        ValueError: Rows are too short, or this processor has no kernel.
    """

def greatest_bfloat16(rows: int, stride: int, count: int, size: int, outputs: int) -> None:
    """The same for bfloat16."""

class Architecture:
    """The sizes of a decoder; see engine.kernels.DecoderSizes."""

    def __init__(
        self,
        hidden: int,
        intermediate: int,
        heads: int,
        kv_heads: int,
        dim: int,
        scale: float,
        epsilon: float,
    ) -> None: ...

class DecoderFloat32:
    """The layers of a decoder in one call. Keeps the addresses that it is given.

    Args:
        attention: Name of the kernel for attention.
        embeddings: Address of (vocabulary, hidden).
        angles: Address of (positions, dim): cosines, then sines.
        norm: Address of the last norm's weight.

    Raises:
        ValueError: The sizes are not supported, or this processor has no such kernel.
    """

    def __init__(
        self,
        attention: str,
        sizes: Architecture,
        embeddings: int,
        vocabulary: int,
        angles: int,
        positions: int,
        norm: int,
    ) -> None: ...
    def add(
        self,
        qkv: PackedFloat32,
        qkv_bias: int,
        out: PackedFloat32,
        out_bias: int,
        gate_up: PackedFloat32,
        gate_up_bias: int,
        down: PackedFloat32,
        down_bias: int,
        attention_norm: int,
        mlp_norm: int,
        query_norm: int,
        key_norm: int,
    ) -> None:
        """Add the next layer; biases and the last two norms are 0 for none.

        Raises:
            ValueError: A weight has another shape.
        """

    def bind(self, layers: list[AttentionFloat32]) -> None:
        """Use the caches of these layers.

        Raises:
            ValueError: Their number is wrong.
        """

    def run(
        self,
        tokens: int,
        ids: int,
        embeddings: int,
        positions: int,
        slots: int,
        requests: Requests,
        outputs: int,
        taps: list[tuple[int, int]],
    ) -> None:
        """Compute a step and write the states after the last norm (tokens, hidden).

        Args:
            tokens: Number of tokens.
            ids: Address of their ids, int32, or 0 for embeddings.
            embeddings: Address of (tokens, hidden), or 0 for ids.
            positions: Address of int64.
            slots: Address of int64 for the tokens of requests, which come first.
            requests: The requests.
            outputs: Address to write to.
            taps: Layers, and the address where the residual stream before each is written.

        Raises:
            IndexError: A token id, a position or a slot is out of range.
            MemoryError: There is no memory.
        """

class DecoderBFloat16:
    """The same for bfloat16, which is widened."""

    def __init__(
        self,
        attention: str,
        sizes: Architecture,
        embeddings: int,
        vocabulary: int,
        angles: int,
        positions: int,
        norm: int,
    ) -> None: ...
    def add(
        self,
        qkv: PackedBFloat16,
        qkv_bias: int,
        out: PackedBFloat16,
        out_bias: int,
        gate_up: PackedBFloat16,
        gate_up_bias: int,
        down: PackedBFloat16,
        down_bias: int,
        attention_norm: int,
        mlp_norm: int,
        query_norm: int,
        key_norm: int,
    ) -> None: ...
    def bind(self, layers: list[AttentionBFloat16]) -> None: ...
    def run(
        self,
        tokens: int,
        ids: int,
        embeddings: int,
        positions: int,
        slots: int,
        requests: Requests,
        outputs: int,
        taps: list[tuple[int, int]],
    ) -> None: ...

class DecoderPairs:
    """The same for processors with bfloat16 instructions."""

    def __init__(
        self,
        attention: str,
        sizes: Architecture,
        embeddings: int,
        vocabulary: int,
        angles: int,
        positions: int,
        norm: int,
    ) -> None: ...
    def add(
        self,
        qkv: PackedPairs,
        qkv_bias: int,
        out: PackedPairs,
        out_bias: int,
        gate_up: PackedPairs,
        gate_up_bias: int,
        down: PackedPairs,
        down_bias: int,
        attention_norm: int,
        mlp_norm: int,
        query_norm: int,
        key_norm: int,
    ) -> None: ...
    def bind(self, layers: list[AttentionBFloat16]) -> None: ...
    def run(
        self,
        tokens: int,
        ids: int,
        embeddings: int,
        positions: int,
        slots: int,
        requests: Requests,
        outputs: int,
        taps: list[tuple[int, int]],
    ) -> None: ...

def are_pairs_fast() -> bool:
    """Whether instructions for bfloat16, without tiles, are faster than float32's."""

def tiles() -> str:
    """Whether bfloat16 can be multiplied by AMX: usable, refused (by the system) or absent."""
