"""The compiled core: a gated head on a CPU, for few rows. The work is done in core/ (C++20).

Tensors are read and written where they are; what an object is made of it keeps alive. A shape or a
dtype that does not fit is a ValueError, a token without a row in its table an IndexError.
"""

from collections.abc import Sequence

from torch import Tensor

class Matrix:
    """A linear layer with int8 weights: products of integers, added up exactly.

    Args:
        values: int8, (out, in), contiguous.
        scales: float32, (out,): what a step of a row's integers stands for.
    """

    def __init__(self, values: Tensor, scales: Tensor) -> None: ...
    def __call__(self, inputs: Tensor, outputs: Tensor) -> None:
        """Write the products, float32 (rows, out), of inputs, float32 (rows, in)."""

class Norm:
    """An RMS norm with weight and bias, of one width."""

    def __init__(self, weight: Sequence[float], bias: Sequence[float]) -> None: ...

class Table:
    """Rows of a vocabulary, bfloat16, (rows, width), contiguous."""

    def __init__(self, rows: Tensor) -> None: ...

class Attention:
    """Looks for earlier rows, as `engine.heads.attention.attend`; one sharpness and sink a head."""

    def __init__(
        self,
        norm: Norm,
        query: Matrix,
        leave: Matrix,
        sharpness: Sequence[float],
        sink: Sequence[float],
    ) -> None: ...

class Recorder:
    """Makes keys and values of rows, as `engine.heads.attention.record`."""

    def __init__(self, norm: Norm, linear: Matrix, heads: int) -> None: ...

class Cell:
    """The recurrence, as `engine.heads.cells.GatedCell`."""

    def __init__(self, norm: Norm, enter: Matrix, leave: Matrix, state_norm: Norm) -> None: ...

class Position:
    """What a position is made of, as `engine.heads.stage.Stage`.

    `table` is its embedding, `extension` what scores tokens beside the vocabulary.
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
    """A head at work.

    Args:
        positions: The first ones; later ones are like the last.
        input_norm: Of the target's states, where the head scales them.
        recorder: Of a head with a window.
        ids: The target's id of each token of the vocabulary, int64, rising; None for the same.
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
            rows: Places in it.
            tokens: What was drawn from each of these.
            length: Tokens to draft.
            view: What the rows may look at, an `engine.heads.view.View` in float32; None for
                nothing.

        Returns:
            For each row, target's ids and the head's probability of each.
        """

    def write(
        self,
        hidden: Sequence[Tensor],
        rows: Sequence[tuple[int, int, int, int, int]],
        moves: Sequence[tuple[int, int]],
        tables: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        """Make keys and values of rows and write them: `DraftHead.write`, in float32."""
