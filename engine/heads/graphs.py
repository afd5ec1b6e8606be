"""Drafting with CUDA graphs: one launch per call, whatever its number of operations."""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.heads.attention import Context
from engine.heads.drafting import Drafting

MOST_ROWS = 256
"""Largest batch of a graph; larger calls run without one, where launches cost relatively little."""

# Runs before a capture, so that allocations and libraries have settled.
_WARM_UPS = 2


class _Captured(NamedTuple):
    """A graph and the memory that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    hidden: Tensor
    tokens: Tensor
    context: Context | None
    drafted: Tensor
    confidence: Tensor


class GraphedDrafting(Drafting):
    """The drafting loop on CUDA, captured for each (rows, n, context shape) that occurs.

    Rows are rounded up to powers of two; padding rows do not affect the others. The copies into
    the graph's memory, the graph, and the copies out of it run on the caller's stream, in order, so
    the next call may begin at once.

    Args:
        loop: Must do work on the device only.
        hidden_size: Hidden size of the target.
        dtype: Dtype of the hidden states that the graphs keep.
        device: Device of all tensors.
    """

    def __init__(
        self, loop: Drafting, *, hidden_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._loop = loop
        self._hidden_size = hidden_size
        self._dtype = dtype
        self._device = device
        self._captured: dict[tuple[int, int, int, bool], _Captured] = {}
        # Results are copied out before the next graph runs, so all graphs can share memory.
        self._memory = torch.cuda.graph_pool_handle()

    def draft(
        self, hidden: Tensor, tokens: Tensor, n: int, context: Context | None
    ) -> tuple[Tensor, Tensor]:
        """See `Drafting`."""
        rows = tokens.shape[0]
        if rows > MOST_ROWS:
            return self._loop.draft(hidden, tokens, n, context)
        bucket = round_up(rows)
        entries = 0 if context is None else context.keys.shape[2]
        key = bucket, n, entries, context is not None and context.mask is not None
        captured = self._captured.get(key)
        if captured is None:
            with torch.cuda.device(self._device):
                captured = self._captured[key] = self._capture(bucket, n, context)
        captured.hidden[:rows].copy_(hidden)
        captured.tokens[:rows].copy_(tokens)
        if context is not None and captured.context is not None:
            for kept, given in zip(captured.context, context, strict=True):
                if kept is not None:
                    kept[:rows].copy_(given)
        captured.graph.replay()
        return captured.drafted[:rows].clone(), captured.confidence[:rows].clone()

    def record(self, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """See `Drafting`; a few launches, without a graph."""
        return self._loop.record(hidden, tokens)

    def _capture(self, rows: int, n: int, like: Context | None) -> _Captured:
        hidden = torch.zeros(rows, self._hidden_size, dtype=self._dtype, device=self._device)
        tokens = torch.zeros(rows, dtype=torch.int64, device=self._device)
        context = None
        if like is not None:
            keys, values = (part.new_zeros(rows, *part.shape[1:]) for part in like[:2])
            mask = None if like.mask is None else like.mask.new_zeros(rows, *like.mask.shape[1:])
            tokens = (
                None if like.tokens is None else like.tokens.new_zeros(rows, like.tokens.shape[1])
            )
            context = Context(keys, values, mask, tokens)
        current = torch.cuda.current_stream(self._device)
        side = torch.cuda.Stream(self._device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._loop.draft(hidden, tokens, n, context)
        current.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Other threads of the process may allocate during the capture.
        with torch.cuda.graph(graph, pool=self._memory, capture_error_mode="thread_local"):
            drafted, confidence = self._loop.draft(hidden, tokens, n, context)
        return _Captured(graph, hidden, tokens, context, drafted, confidence)


def round_up(rows: int) -> int:
    """Return the smallest power of two that is at least `rows`; 1 for none."""
    return 1 << max(rows - 1, 0).bit_length()
