"""Folds a head's weights for drafting: computations that depend on a token alone become tables.

docs/adr/0015 lists what is folded and what it gains.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.heads.attention import Recorder
from engine.heads.cells import Linear, make_input_norm
from engine.heads.compiled import CompiledDrafting, compile_head
from engine.heads.config import HeadConfig
from engine.heads.drafting import Drafting, DraftingLoop
from engine.heads.extension import Extension
from engine.heads.graphs import GraphedDrafting
from engine.heads.lookup import Lookup, Projection
from engine.heads.matrix import Matrix
from engine.heads.pieces import by_rows
from engine.heads.stage import Stage, build_stage
from engine.heads.target import SharedTables
from engine.heads.vocabulary import Vocabulary
from engine.heads.weights import HeadWeights, at

FOLDED_BYTES = 64 * 2**20
"""Memory limit of a table that saves a multiplication; fits 49,152 tokens by 576 in bfloat16."""


def fold(
    config: HeadConfig, weights: HeadWeights, vocabulary: Vocabulary, shared: SharedTables
) -> Drafting:
    """Return the drafting of a head; later changes of the weights have no effect on it.

    On CUDA it uses graphs, for a gated head on a CPU the C++ core.
    """
    folding = _Folding(config, weights, vocabulary, shared)
    positions = min(2, config.positions) if config.tie_positions else config.positions
    device = weights.device
    stages = [folding.stage(position) for position in range(positions)]
    recorder = folding.recorder()
    like = torch.empty((), dtype=weights.dtype, device=device)
    input_norm = make_input_norm(config.hidden_size, like) if config.scale_input else None
    loop = DraftingLoop(
        stages,
        vocabulary=vocabulary,
        dtype=weights.dtype,
        input_norm=input_norm,
        recorder=recorder,
    )
    if device.type != "cuda":
        compiled = compile_head(stages, vocabulary, recorder=recorder, input_norm=input_norm)
        return loop if compiled is None else CompiledDrafting(compiled, loop)
    return GraphedDrafting(loop, hidden_size=config.hidden_size, dtype=weights.dtype, device=device)


class _Folding:
    """Builds the stages of a head."""

    def __init__(
        self, config: HeadConfig, weights: HeadWeights, vocabulary: Vocabulary, shared: SharedTables
    ) -> None:
        self._config = config
        self._weights = weights
        self._vocabulary = vocabulary
        self._shared = shared
        # Positions that share weights share what is folded: fewer bytes to read (adr/0015).
        self._matrices: dict[nn.Module, Matrix] = {}
        self._scores: dict[nn.Module | None, Linear] = {}
        self._extensions: dict[nn.Module | None, Extension] = {}
        self._whole: dict[nn.Module, Lookup] = {}

    def stage(self, position: int) -> Stage:
        return build_stage(
            self._config,
            self._weights,
            position,
            linear=self._quicken,
            embed=self._embed(position),
            score=self._score(position),
            extension=self._extension(position),
        )

    def recorder(self) -> Recorder | None:
        recorders = self._weights.recorders
        return recorders[0].read(self._quicken) if len(recorders) else None

    def _quicken(self, linear: nn.Module) -> Matrix:
        if linear not in self._matrices:
            self._matrices[linear] = Matrix(linear.weight)
        return self._matrices[linear]

    def _fits(self, rows: int, width: int) -> bool:
        return bool(rows * width * self._weights.dtype.itemsize <= FOLDED_BYTES)

    def _embed(self, position: int) -> Lookup | None:
        """The first position looks up target ids, the others draft ids if there is no extension."""
        if not self._weights.embeddings:
            return None
        if not self._config.window_tokens:
            return self._make_lookup(position, None if position == 0 else self._vocabulary.ids)
        own = at(self._weights.embeddings, position)
        if own not in self._whole:
            self._whole[own] = self._make_lookup(position, None)
        return self._whole[own]

    def _make_lookup(self, position: int, ids: Tensor | None) -> Lookup:
        table = at(self._weights.embeddings, position).weight.detach()
        projection = None
        if self._shared.embedding is not None and self._config.share_embedding:
            # The sum has no forget gate at the first position.
            gates = at(self._weights.projections, position).linear.weight.shape[0]
            projection = table[-gates:]
            table = self._shared.embedding
        rows = self._config.vocab_size if ids is None else ids.shape[0]
        width = table.shape[1] if projection is None else projection.shape[0]
        if not self._fits(rows, width):
            return Lookup(table, ids, None if projection is None else Projection(projection))
        table = table if ids is None else table[ids]
        if projection is not None:
            table = _multiply(table, projection)
        return Lookup(table, None, None)

    def _score(self, position: int) -> Linear:
        outputs = self._weights.outputs
        layer = at(outputs, position) if outputs else None
        if layer not in self._scores:
            self._scores[layer] = self._fold_output(layer)
        return self._scores[layer]

    def _extension(self, position: int) -> Extension | None:
        if not self._config.window_tokens:
            return None
        assert self._shared.output is not None
        rows = self._shared.output[: self._config.vocab_size]
        outputs = self._weights.outputs
        layer = at(outputs, position) if outputs else None
        if layer not in self._extensions:
            self._extensions[layer] = self._extend(layer, rows)
        return self._extensions[layer]

    def _extend(self, layer: nn.Module | None, rows: Tensor) -> Extension:
        width = rows.shape[1] if layer is None else layer.weight.shape[1]
        if not self._fits(rows.shape[0], width):
            return Extension(None if layer is None else self._quicken(layer), rows)
        if layer is None:
            return Extension(None, rows.to(self._weights.dtype))
        return Extension(None, _multiply(rows, layer.weight.detach().t()))

    def _fold_output(self, layer: nn.Module | None) -> Linear:
        own = None if layer is None else layer.weight.detach()
        if self._shared.output is None or not self._config.share_output:
            assert own is not None
            return Matrix(own)
        rows = self._vocabulary.rows_of(self._shared.output).to(self._weights.dtype)
        if own is None:
            return Matrix(rows)
        if own.shape[1] <= own.shape[0] and self._fits(rows.shape[0], own.shape[1]):
            return Matrix(_multiply(rows, own.t()))
        return _Chain(Matrix(own), Matrix(rows))


def _multiply(rows: Tensor, weight: Tensor) -> Tensor:
    """Return x W^T in the dtype of the weight, in which the rows are read.

    On CPUs computed in float32, in which bfloat16 products are accumulated anyway: without bfloat16
    instructions a product takes 24 s in bfloat16 and 0.5 s in float32.
    """
    if rows.device.type != "cpu":
        return functional.linear(rows.to(weight.dtype), weight)
    factor = weight.float()

    def multiply(some: Tensor) -> tuple[Tensor]:
        product = functional.linear(some.to(weight.dtype).float(), factor)
        return (product.to(weight.dtype),)

    (product,) = by_rows(rows, multiply)
    return product


class _Chain:
    """Two matrices applied in turn, if their product would be larger than both."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Matrix, second: Matrix) -> None:
        self._first = first
        self._second = second

    def __call__(self, rows: Tensor) -> Tensor:
        return self._second(self._first(rows))
