"""Drafting with CUDA graphs: one launch per pass, whatever its number of operations."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engine.heads.attention import Context
from engine.heads.drafting import Drafting
from engine.heads.transfer import Guess, pack, unpack
from engine.heads.view import Tables, View, gather

MOST_ROWS = 256
"""Largest batch of a graph; larger calls run without one, where launches cost relatively little."""

# Runs before a capture, so that allocations and libraries have settled.
_WARM_UPS = 2


class _Captured(NamedTuple):
    """A graph and the memory that it reads and writes.

    Attributes:
        graph: The graph.
        tables: Where it finds what the rows attend to; None for a head without a window.
        numbers: For each row the index of its state, its newest token and, with a window, its slot
            and the number of entries there; int64, (2 or 4, rows).
        hidden: The states of the rows.
        result: What `pack` returns.
    """

    graph: torch.cuda.CUDAGraph
    tables: Tables | None
    numbers: Tensor
    hidden: Tensor
    result: Tensor


class GraphedDrafting(Drafting):
    """Drafts on CUDA: a copy in, two launches, the graph, and a copy out.

    `capture` makes a graph for each power of two of rows; padding rows do not affect the others. A
    pass for which there is no graph runs the loop, since a capture waits for the device.

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
        self._captured: dict[tuple[int, int], _Captured] = {}
        # Results are copied out before the next graph runs, so all graphs can share memory.
        self._memory = torch.cuda.graph_pool_handle()

    def draft(
        self, hidden: Tensor, tokens: Tensor, n: int, context: Context | None
    ) -> tuple[Tensor, Tensor]:
        """See `Drafting`; for a head without a window with a graph, if there is one."""
        rows = len(tokens)
        captured = self._captured.get((round_up(rows), n))
        if captured is None or captured.tables is not None:
            return self._loop.draft(hidden, tokens, n, context)
        captured.numbers[1, :rows].copy_(tokens)
        captured.hidden[:rows].copy_(hidden)
        captured.graph.replay()
        drafted, confidence = captured.result[:, :rows]
        return drafted.to(torch.int64), confidence.view(torch.float32).clone()

    def record(self, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """See `Drafting`; a few launches, without a graph."""
        return self._loop.record(hidden, tokens)

    def capture(self, n: int, *, rows: int, tables: Tables | None) -> None:
        """See `Drafting`."""
        largest = round_up(min(rows, MOST_ROWS))
        with torch.cuda.device(self._device):
            # The largest first: the others then fit into its memory.
            for power in reversed(range(largest.bit_length())):
                self._captured[1 << power, n] = self._capture(1 << power, n, tables)

    def guess(
        self, states: Tensor, rows: Sequence[int], tokens: Sequence[int], n: int, view: View | None
    ) -> list[Guess]:
        """See `Drafting`."""
        captured = self._captured.get((round_up(len(rows)), n))
        if captured is None or captured.tables is not (None if view is None else view.tables):
            return super().guess(states, rows, tokens, n, view)
        lists = (rows, tokens) if view is None else (rows, tokens, view.slots, view.filled)
        padding = [0] * (captured.hidden.shape[0] - len(rows))
        numbers = torch.tensor([[*some, *padding] for some in lists]).pin_memory()
        captured.numbers.copy_(numbers, non_blocking=True)
        captured.hidden.copy_(states.index_select(0, captured.numbers[0]))
        captured.graph.replay()
        return unpack(captured.result)[: len(rows)]

    def _capture(self, rows: int, n: int, tables: Tables | None) -> _Captured:
        hidden = torch.zeros(rows, self._hidden_size, dtype=self._dtype, device=self._device)
        lists = 2 if tables is None else 4
        numbers = torch.zeros(lists, rows, dtype=torch.int64, device=self._device)

        def run() -> Tensor:
            _, tokens, *seen = numbers.unbind(0)
            context = None
            if tables is not None:
                slots, filled = seen
                context = gather(tables, slots, filled, entries=tables.keys.shape[1] - 2)
            return pack(*self._loop.draft(hidden, tokens, n, context))

        current = torch.cuda.current_stream(self._device)
        side = torch.cuda.Stream(self._device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                run()
        current.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Other threads of the process may allocate during the capture.
        with torch.cuda.graph(graph, pool=self._memory, capture_error_mode="thread_local"):
            result = run()
        return _Captured(graph, tables, numbers, hidden, result)


def round_up(rows: int) -> int:
    """Return the smallest power of two that is at least `rows`; 1 for none."""
    return 1 << max(rows - 1, 0).bit_length()
