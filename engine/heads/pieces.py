"""Tables computed in pieces, so that a head can be folded beside a model that is being served."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_ROWS = 64
"""Rows of a piece: a millisecond or two for a product of the shipped head's tables."""

_PAUSES = 7.0
"""How long to pause after a piece, as a multiple of its time: an eighth of a processor is used.

Priorities do not do this. A thread of the class SCHED_IDLE that holds Python's lock while others
use all processors stops the step for up to 0.3 s (docs/adr/0036).
"""

# vLLM's CPU worker replaces `torch.set_num_threads` with a function that refuses.
_set_threads: Callable[[int], None] = torch._C.set_num_threads

_is_unhurried: ContextVar[bool] = ContextVar("is_unhurried", default=False)


@contextmanager
def unhurried() -> Iterator[None]:
    """Have `by_rows` pause between pieces in this thread, and torch use this thread alone."""
    threads = torch.get_num_threads()
    _set_threads(1)  # of this thread only
    token = _is_unhurried.set(True)
    try:
        yield
    finally:
        _is_unhurried.reset(token)
        _set_threads(threads)


def by_rows(table: Tensor, compute: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Return what is computed from a table row by row: at once, or `unhurried` in pieces.

    Args:
        table: Shape (rows, any).
        compute: Takes some of the rows; each of its results has as many.
    """
    if not _is_unhurried.get() or table.device.type != "cpu":
        return compute(table)
    results: tuple[Tensor, ...] = ()
    for begin in range(0, table.shape[0], _ROWS):
        began = time.perf_counter()
        pieces = compute(table[begin : begin + _ROWS])
        if not results:
            results = tuple(piece.new_empty(len(table), *piece.shape[1:]) for piece in pieces)
        for result, piece in zip(results, pieces, strict=True):
            result[begin : begin + len(piece)] = piece
        time.sleep(_PAUSES * (time.perf_counter() - began))
    return results
