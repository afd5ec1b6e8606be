"""Drafting of a gated head on a CPU in C++ (core/): for a few rows torch has too many operations.

A draft of the shipped head is some 70 of them, and each costs microseconds before it computes
anything, together more than reading the weights (docs/adr/0019).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine._core import heads as _core
from engine.heads.attention import Attention, Context, Recorder
from engine.heads.cells import GatedCell, Linear, Norm
from engine.heads.drafting import Drafting, Entry, Guess
from engine.heads.extension import Extension
from engine.heads.lookup import Lookup
from engine.heads.matrix import Matrix
from engine.heads.stage import Stage
from engine.heads.view import Tables, View
from engine.heads.vocabulary import Vocabulary

MOST_ROWS = 32
"""At 16 rows both take as long in a worker (docs/adr/0019); torch has its threads beyond."""


class CompiledDrafting(Drafting):
    """Drafts for few rows of a step with the core; the rest with torch.

    Args:
        head: The core's.
        loop: The same in torch.
    """

    def __init__(self, head: _core.GatedHead, loop: Drafting) -> None:
        self._head = head
        self._loop = loop

    def draft(
        self, hidden: Tensor, tokens: Tensor, n: int, context: Context | None
    ) -> tuple[Tensor, Tensor]:
        """See `Drafting`."""
        return self._loop.draft(hidden, tokens, n, context)

    def record(self, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """See `Drafting`."""
        return self._loop.record(hidden, tokens)

    def guess(
        self, states: Tensor, rows: Sequence[int], tokens: Sequence[int], n: int, view: View | None
    ) -> list[Guess]:
        """See `Drafting`."""
        if len(rows) > MOST_ROWS or not _is_plain(states):
            return super().guess(states, rows, tokens, n, view)
        return self._head.draft(states, rows, tokens, n, view)

    def write(
        self,
        states: Sequence[Tensor],
        entries: Sequence[Entry],
        moves: Sequence[tuple[int, int]],
        tables: Tables,
    ) -> None:
        """See `Drafting`; also many rows, of a prompt: torch wakes its threads for them."""
        if all(map(_is_plain, states)):
            self._head.write(states, entries, moves, tables)
        else:
            super().write(states, entries, moves, tables)


def compile_head(
    stages: Sequence[Stage],
    vocabulary: Vocabulary,
    *,
    recorder: Recorder | None,
    input_norm: Norm | None,
) -> _core.GatedHead | None:
    """Return the core's head of folded stages; None where it knows no such thing.

    That is every kind but the gated one, weights that are not in int8 (float32, or widths that
    torch has no kernel for), and tables too large to be folded.

    Args:
        stages: Of the first positions, on a CPU; later ones are like the last.
        vocabulary: Of the head.
        recorder: Of a head with a window.
        input_norm: Of the target's state, where the head scales it.
    """
    try:
        return _core.GatedHead(
            tuple(_position(stage) for stage in stages),
            None if input_norm is None else _norm(input_norm),
            None if recorder is None else _recorder(recorder),
            vocabulary.ids,
        )
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """The core has nothing that does the same."""


def _position(stage: Stage) -> _core.Position:
    if not isinstance(stage.cell, GatedCell) or not isinstance(stage.embed, Lookup):
        raise _UnknownError
    return _core.Position(
        _matrix(stage.project),
        _table(stage.embed.folded),
        stage.scale,
        None if stage.attention is None else _attention(stage.attention),
        _cell(stage.cell),
        _matrix(stage.score),
        None if stage.extension is None else _extension(stage.extension),
    )


def _cell(cell: GatedCell) -> _core.Cell:
    return _core.Cell(
        _norm(cell.norm), _matrix(cell.enter), _matrix(cell.leave), _norm(cell.state_norm)
    )


def _attention(attention: Attention) -> _core.Attention:
    return _core.Attention(
        _norm(attention.norm),
        _matrix(attention.query),
        _matrix(attention.leave),
        attention.sharpness.flatten().tolist(),
        attention.sink.flatten().tolist(),
    )


def _extension(extension: Extension) -> _core.Table:
    return _table(extension.rows if extension.project is None else None)


def _table(rows: Tensor | None) -> _core.Table:
    if rows is None or rows.dtype != torch.bfloat16:
        raise _UnknownError
    return _core.Table(rows.contiguous())


def _recorder(recorder: Recorder) -> _core.Recorder:
    return _core.Recorder(_norm(recorder.norm), _matrix(recorder.linear), recorder.heads)


def _norm(norm: Norm) -> _core.Norm:
    return _core.Norm(norm.weight.tolist(), norm.bias.tolist())


def _matrix(linear: Linear) -> _core.Matrix:
    quantised = linear.quantised if isinstance(linear, Matrix) else None
    if quantised is None:
        raise _UnknownError
    values, scales = quantised
    return _core.Matrix(values.contiguous(), scales.float())


def _is_plain(states: Tensor) -> bool:
    return states.dtype in (torch.bfloat16, torch.float32) and states.is_contiguous()
