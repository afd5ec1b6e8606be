"""Embedding lookup for drafting: rows of a table, folded if memory allows."""

from torch import Tensor
from torch.nn import functional

from engine.heads.cells import Linear
from engine.heads.matrix import Matrix


class Lookup:
    """Embeddings of ids: rows of a table, projected if the table was too large to fold."""

    __slots__ = ("_ids", "_projection", "_table")

    def __init__(self, table: Tensor, ids: Tensor | None, projection: Linear | None) -> None:
        self._table = table
        self._ids = ids
        self._projection = projection

    @property
    def folded(self) -> Tensor | None:
        """The table, (ids, width), if its rows are complete embeddings; else None."""
        return self._table if self._ids is None and self._projection is None else None

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return embeddings, (m, width), of ids, (m,)."""
        if self._ids is not None:
            tokens = self._ids[tokens]
        rows = functional.embedding(tokens, self._table)
        return rows if self._projection is None else self._projection(rows)


class Projection:
    """A matrix applied to rows of the target's table, whose dtype may differ."""

    __slots__ = ("_dtype", "_matrix")

    def __init__(self, weight: Tensor) -> None:
        self._dtype = weight.dtype
        self._matrix = Matrix(weight)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return projected rows, (m, width)."""
        return self._matrix(rows.to(self._dtype))
