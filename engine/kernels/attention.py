"""Attention over vLLM's paged KV cache with the kernel for this processor."""

from collections.abc import Mapping

import torch  # first: the core uses the OpenMP runtime that torch loads
from torch import Tensor

from engine._core.kernels import AttentionBFloat16, AttentionFloat32, Requests
from engine.kernels.linear import prefers_pairs

__all__ = ["PagedAttention", "StepRequests", "attention_kernels"]

_Attention = AttentionFloat32 | AttentionBFloat16
_KINDS: Mapping[torch.dtype, type[_Attention]] = {
    torch.float32: AttentionFloat32,
    torch.bfloat16: AttentionBFloat16,
}
_GROUP_TOKENS = 32
_MOST_DIM = 512


def attention_kernels(dtype: torch.dtype) -> list[str]:
    """Return the names of this processor's kernels for a dtype, best first; empty for none."""
    names = _KINDS[dtype].kernels() if dtype in _KINDS else []
    return names if prefers_pairs() else sorted(names, key=lambda name: name == "avx512_bf16")


class StepRequests:
    """The requests of a step, shared by all layers.

    Args:
        starts: int32, shape (requests + 1,): request i has the queries [starts[i], starts[i + 1]),
            which are the last of its tokens.
        lengths: int32, shape (requests,): tokens of each request in the cache.
        blocks: int32, shape (requests, most): the block table.

    Raises:
        ValueError: A tensor has the wrong shape, dtype or stride.
    """

    __slots__ = ("_kept", "core", "tokens")

    def __init__(self, starts: Tensor, lengths: Tensor, blocks: Tensor) -> None:
        count = lengths.shape[0]
        for name, tensor, shape in (
            ("starts", starts, (count + 1,)),
            ("lengths", lengths, (count,)),
            ("blocks", blocks, (count, blocks.shape[-1])),
        ):
            if tensor.dtype is not torch.int32 or tensor.shape != shape or tensor.stride(-1) != 1:
                raise ValueError(f"{name}: got {tensor.dtype} {tuple(tensor.shape)}")
        self.tokens = int(starts[-1])
        self._kept = (starts, lengths, blocks)  # keeps the memory that the core points to
        self.core = Requests(
            starts.data_ptr(), lengths.data_ptr(), count, blocks.data_ptr(), blocks.stride(0)
        )

    def are(self, starts: Tensor, lengths: Tensor, blocks: Tensor) -> bool:
        """Tell whether it was made from these very tensors."""
        return self._kept[0] is starts and self._kept[1] is lengths and self._kept[2] is blocks


class PagedAttention:
    """Causal attention of a layer, accumulated in float32.

    Results are batch-invariant: a query's result is computed in the same order and is bit-identical
    whatever else is in the step.

    Args:
        keys: float32 or bfloat16, shape (blocks, heads, tokens, dim). Within a head's block the
            data is (dim, tokens): vLLM's layout for vector instructions.
        values: Shape (blocks, heads, tokens, dim).
        heads: Number of query heads; a multiple of the cache's heads.
        scale: Factor of the scores.
        kernel: One of `attention_kernels(keys.dtype)`; by default the first.

    Raises:
        ValueError: A shape or dtype is not supported, or this processor has no such kernel.
    """

    __slots__ = ("_dim", "_dtype", "_heads", "_kept", "core")

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        *,
        heads: int,
        scale: float,
        kernel: str | None = None,
    ) -> None:
        names = attention_kernels(keys.dtype)
        chosen = next(iter(names), None) if kernel is None else kernel
        if chosen not in names:
            raise ValueError(f"kernel: no {chosen} for {keys.dtype}; available are {names}")
        _, kv_heads, tokens, dim = keys.shape
        fits = keys.shape == values.shape and keys.stride() == values.stride()
        is_dense = keys.stride()[2:] == (dim, 1) and keys.dtype is values.dtype
        if not fits or not is_dense or heads % kv_heads:
            raise ValueError(
                f"cache: got {tuple(keys.shape)}, {tuple(values.shape)}, {heads} heads"
            )
        if tokens % _GROUP_TOKENS or dim % _GROUP_TOKENS or dim > _MOST_DIM:
            raise ValueError(f"cache: got blocks of {tokens} tokens, heads of {dim}")
        self._dtype, self._heads, self._dim = keys.dtype, heads, dim
        self._kept = (keys, values)
        self.core: _Attention = _KINDS[keys.dtype](
            chosen,
            keys.data_ptr(),
            values.data_ptr(),
            keys.shape[0],
            keys.stride(0),
            keys.stride(1),
            tokens,
            heads,
            kv_heads,
            dim,
            scale,
        )

    def __call__(self, queries: Tensor, requests: StepRequests, outputs: Tensor) -> None:
        """Compute the attention of a step's queries.

        Args:
            queries: Shape (tokens, heads, dim), dtype of the cache.
            requests: The requests of the step, whose keys and values are in the cache.
            outputs: Receives the results; same shape and dtype.

        Raises:
            ValueError: A shape, dtype or stride is wrong.
        """
        for tensor in (queries, outputs):
            tokens, heads, dim = tensor.shape
            if (
                (tokens, heads, dim) != (queries.shape[0], self._heads, self._dim)
                or tensor.dtype is not self._dtype
                or tensor.stride()[1:] != (dim, 1)
            ):
                raise ValueError(f"got {tensor.dtype} {tuple(tensor.shape)} {tensor.stride()}")
        self.core.attend(
            requests.core,
            queries.data_ptr(),
            queries.stride(0),
            outputs.data_ptr(),
            outputs.stride(0),
            queries.shape[0],
        )
