"""Embeddings of ids when a head drafts: a row of a table, folded where memory allows that."""

from torch import Tensor
from torch.nn import functional

from engine.heads.cells import Linear
from engine.heads.matrix import Matrix


class Lookup:
    """Embeddings of ids: rows of a table, projected where it was too large to do that before."""

    __slots__ = ("_ids", "_projection", "_table")

    def __init__(self, table: Tensor, ids: Tensor | None, projection: Linear | None) -> None:
        self._table = table
        self._ids = ids
        self._projection = projection

    @property
    def folded(self) -> Tensor | None:
        """The table, (ids, width), where a row is the whole embedding."""
        return self._table if self._ids is None and self._projection is None else None

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return embeddings, (m, width), of ids, (m,)."""
        if self._ids is not None:
            tokens = self._ids[tokens]
        rows = functional.embedding(tokens, self._table)
        return rows if self._projection is None else self._projection(rows)


class Projection:
    """A matrix for rows of the target's table, whose dtype may be another."""

    __slots__ = ("_dtype", "_matrix")

    def __init__(self, weight: Tensor) -> None:
        self._dtype = weight.dtype
        self._matrix = Matrix(weight)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return projected rows, (m, width)."""
        return self._matrix(rows.to(self._dtype))
