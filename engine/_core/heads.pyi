"""The compiled core: a gated head on a CPU, for few rows, implemented in core/ (C++20).

Tensors are read and written in place, and objects keep alive what they are made of. A wrong shape
or dtype raises ValueError, a token id outside of its table IndexError.
"""

from collections.abc import Sequence

from torch import Tensor

class Matrix:
    """A linear layer with int8 weights; integer products are summed exactly.

    Args:
        values: int8, (out, in), contiguous.
        scales: float32, (out,): the scale of each row.
        kernel: One of `kernels()`; by default the first. All give the same sums.

    Raises:
        ValueError: This processor has no such kernel.
    """

    def __init__(self, values: Tensor, scales: Tensor, kernel: str | None = None) -> None: ...
    @staticmethod
    def kernels() -> list[str]:
        """Return the names of this processor's kernels, best first."""
    def __call__(self, inputs: Tensor, outputs: Tensor) -> None:
        """Write the products, float32 (rows, out), of inputs, float32 (rows, in)."""

class Norm:
    """An RMS norm with weight and bias of the same width."""

    def __init__(self, weight: Sequence[float], bias: Sequence[float]) -> None: ...

class Table:
    """A table with a row per token, bfloat16, (rows, width), contiguous."""

    def __init__(self, rows: Tensor) -> None: ...

class Attention:
    """Attention as in `engine.heads.attention.attend`; one sharpness and one sink per head."""

    def __init__(
        self,
        norm: Norm,
        query: Matrix,
        leave: Matrix,
        sharpness: Sequence[float],
        sink: Sequence[float],
    ) -> None: ...

class Recorder:
    """Computes keys and values as `engine.heads.attention.record`."""

    def __init__(self, norm: Norm, linear: Matrix, heads: int) -> None: ...

class Cell:
    """The recurrence, as `engine.heads.cells.GatedCell`."""

    def __init__(self, norm: Norm, enter: Matrix, leave: Matrix, state_norm: Norm) -> None: ...

class Position:
    """The parts of a position, as in `engine.heads.stage.Stage`.

    `table` is its embedding; `extension` scores tokens outside the vocabulary.
    """

    def __init__(
        self,
        project: Matrix,
        table: Table,
        scale: float,
        attention: Attention | None,
        cell: Cell,
        score: Matrix,
        extension: Table | None,
    ) -> None: ...

class GatedHead:
    """A head that drafts.

    Args:
        positions: The first positions; later ones use the last.
        input_norm: Norm of the target's states, if the head scales them.
        recorder: For a head with a window.
        ids: Target id of each token of the vocabulary, int64, rising; None if the same.
    """

    def __init__(
        self,
        positions: Sequence[Position],
        input_norm: Norm | None,
        recorder: Recorder | None,
        ids: Tensor | None,
    ) -> None: ...
    def draft(
        self,
        hidden: Tensor,
        rows: Sequence[int],
        tokens: Sequence[int],
        length: int,
        view: tuple[tuple[Tensor, Tensor, Tensor], list[int], list[int]] | None,
    ) -> list[tuple[list[int], list[float]]]:
        """Draft greedily.

        Args:
            hidden: The target's states, bfloat16 or float32, (any, hidden_size), contiguous.
            rows: Indices into `hidden`.
            tokens: The token sampled from each of these.
            length: Tokens to draft.
            view: What the rows may attend to, an `engine.heads.view.View` in float32; None for
                nothing.

        Returns:
            For each row, target ids and the head's probability of each.
        """

    def write(
        self,
        hidden: Sequence[Tensor],
        rows: Sequence[tuple[int, int, int, int, int]],
        moves: Sequence[tuple[int, int]],
        tables: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        """Compute keys and values and write them: `DraftHead.write`, in float32."""
