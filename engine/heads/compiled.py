"""Drafts with a gated head on a CPU in C++ (core/), which is faster than torch for few rows.

A draft of the shipped head takes some 70 torch operations. Their fixed costs of microseconds add up
to more than the time to read the weights (docs/adr/0019).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine._core import heads as _core
from engine.heads.attention import Attention, Context, Recorder
from engine.heads.cells import GatedCell, Linear, Norm
from engine.heads.drafting import Drafting, Update
from engine.heads.extension import Extension
from engine.heads.lookup import Lookup
from engine.heads.matrix import Matrix
from engine.heads.stage import Stage
from engine.heads.transfer import Guess
from engine.heads.view import View
from engine.heads.vocabulary import Vocabulary

MOST_ROWS = 32
"""Above this torch is used; more were not measured (docs/adr/0019)."""


class CompiledDrafting(Drafting):
    """Drafts few rows with the C++ core, and more with torch.

    Args:
        head: The core's head.
        loop: The same head in torch.
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

    def write(self, update: Update) -> None:
        """See `Drafting`; also for a prompt's many rows, for which torch would wake its threads."""
        if all(map(_is_plain, update.states)):
            self._head.write(*update)
        else:
            super().write(update)


def compile_head(
    stages: Sequence[Stage],
    vocabulary: Vocabulary,
    *,
    recorder: Recorder | None,
    input_norm: Norm | None,
) -> _core.GatedHead | None:
    """Build the core's head from folded stages; None if the core does not support it.

    The core supports gated heads only, with int8 weights (not float32, nor widths for which torch
    has no kernel) and with tables small enough to be folded.

    Args:
        stages: Stages of the first positions, on a CPU; later positions use the last.
        vocabulary: The head's vocabulary.
        recorder: For a head with a window.
        input_norm: Norm of the target's state, if the head scales it.
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
    """The core has no equivalent."""


def _position(stage: Stage) -> _core.Position:
    if not isinstance(stage.cell, GatedCell) or stage.addends is None:
        raise _UnknownError
    project, _, embed, scale = stage.addends
    if not isinstance(embed, Lookup):
        raise _UnknownError
    return _core.Position(
        _matrix(project),
        _table(embed.folded),
        scale,
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
