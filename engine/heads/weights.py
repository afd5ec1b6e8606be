"""The parameters of a head; tensor names in our format are the attribute names here.

Lists have one element per position, or fewer if positions share weights: the last element serves
all further positions.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

from engine.heads.attention import Attention, Recorder
from engine.heads.cells import (
    EPSILON,
    GatedCell,
    Layer,
    Linear,
    LstmCell,
    MedusaCell,
    MlpCell,
    Norm,
    ResidualLayer,
    make_norm,
)
from engine.heads.config import HeadConfig

# Initial scale of what the layer of a gated cell adds: accepted more after 100 steps of training
# (adr/0015).
_LEAVE_RATIO = 0.2

# Initial sharpness of attention: half and twice as much train no better (adr/0017).
_SHARPNESS = 16.0

T = TypeVar("T")
ReadLinear = Callable[[nn.Module], Linear]
"""Chooses the implementation of a linear layer: the module itself, or a faster one."""


def at(entries: Sequence[T], position: int) -> T:
    """Return the element for a position; the last one serves all further positions."""
    return entries[min(position, len(entries) - 1)]


class NormWeights(nn.Module):
    """Weight and bias of an RMS norm, (width,) each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def read(self) -> Norm:
        """Return them in the form that the recurrences take."""
        return make_norm(self.weight, self.bias)


class LayerWeights(nn.Module):
    """An additional layer: the norm of its input, then a linear layer."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.norm = NormWeights(width)
        self.linear = nn.Linear(width, out, bias=False)

    def read(self, linear: ReadLinear) -> Layer:
        """Return it in the form that the recurrences take."""
        return Layer(self.norm.read(), linear(self.linear))


class ProjectionWeights(nn.Module):
    """From a state to the sum: a linear layer, and the additional layers of an MLP."""

    def __init__(self, config: HeadConfig, *, position: int) -> None:
        super().__init__()
        width = config.sum_size
        # An LSTM has no memory at its first position, so no forget gate.
        gates = config.gates - 1 if config.kind == "lstm" and position == 0 else config.gates
        enters = config.hidden_size if position == 0 else config.inner_size
        self.linear = nn.Linear(enters, gates * width, bias=False)
        self.layers = nn.ModuleList(
            LayerWeights(width, width) for _ in range(config.deep_projection)
        )


class MlpCellWeights(nn.Module):
    """From the sum to the state of an MLP."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        widths = (*config.deep_sizes, config.inner_size)
        self.layers = nn.ModuleList(LayerWeights(width, out) for width, out in pairwise(widths))
        self.norm = NormWeights(config.inner_size)

    def read(self, linear: ReadLinear) -> MlpCell:
        """Return the recurrence."""
        return MlpCell(tuple(layer.read(linear) for layer in self.layers), self.norm.read())


class LstmCellWeights(nn.Module):
    """From the sum to state and memory of an LSTM."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.cell_norm = NormWeights(config.inner_size)
        self.state_norm = NormWeights(config.inner_size)

    def read(self, linear: ReadLinear) -> LstmCell:
        """Return the recurrence; it has no linear layers."""
        return LstmCell(self.cell_norm.read(), self.state_norm.read())


class GatedCellWeights(nn.Module):
    """From the sum to the state of a gated head; `enter` holds the gate's rows first."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        inner, width = config.inner_size, config.gated_width
        self.norm = NormWeights(inner)
        self.enter = nn.Linear(inner, 2 * width, bias=False)
        self.leave = nn.Linear(width, inner, bias=False)
        self.state_norm = NormWeights(inner)

    def read(self, linear: ReadLinear) -> GatedCell:
        """Return the recurrence."""
        return GatedCell(
            self.norm.read(), linear(self.enter), linear(self.leave), self.state_norm.read()
        )


class ResidualLayerWeights(nn.Module):
    """A residual layer of Medusa."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))

    def read(self, linear: ReadLinear) -> ResidualLayer:
        """Return it in the form that the recurrences take."""
        return ResidualLayer(linear(self.linear), self.bias)


class MedusaCellWeights(nn.Module):
    """From the target's state to the state of a position."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            ResidualLayerWeights(config.hidden_size) for _ in range(config.residual_layers)
        )

    def read(self, linear: ReadLinear) -> MedusaCell:
        """Return the recurrence."""
        return MedusaCell(tuple(layer.read(linear) for layer in self.layers))


class AttentionWeights(nn.Module):
    """From a sum to the result of attending to earlier text positions."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.norm = NormWeights(config.inner_size)
        self.query = nn.Linear(config.inner_size, config.attention_size, bias=False)
        self.leave = nn.Linear(config.attention_size, config.inner_size, bias=False)
        self.sharpness = nn.Parameter(torch.full((config.attention_heads,), _SHARPNESS))
        self.sink = nn.Parameter(torch.zeros(config.attention_heads))

    def read(self, linear: ReadLinear) -> Attention:
        """Return it in the form that a stage takes."""
        return Attention(
            self.norm.read(),
            linear(self.query),
            linear(self.leave),
            self.sharpness[:, None],
            self.sink[:, None],
        )


class RecorderWeights(nn.Module):
    """From the sum of a text position to its key and value; rows of the keys come first."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.norm = NormWeights(config.inner_size)
        self.linear = nn.Linear(config.inner_size, 2 * config.attention_size, bias=False)
        self._heads = config.attention_heads

    def read(self, linear: ReadLinear) -> Recorder:
        """Return it in the form that `record` takes."""
        return Recorder(self.norm.read(), linear(self.linear), self._heads)


_CELLS = {
    "mlp": MlpCellWeights,
    "lstm": LstmCellWeights,
    "gated": GatedCellWeights,
    "medusa": MedusaCellWeights,
}


class HeadWeights(nn.Module):
    """All parameters of a head.

    Attributes:
        projections: `ProjectionWeights`; with tied positions one for the first position and one
            for all others. Gates are in the order forget, input, output, candidate. Empty for
            Medusa, as are the embeddings.
        embeddings: Linear layers without bias, used as tables of shape (vocab_size,
            embedding_size). If the target's embeddings are shared, they project those, shape
            (embedding_size, hidden_size).
        cells: `MlpCellWeights`, `LstmCellWeights`, `GatedCellWeights` or `MedusaCellWeights`.
        attentions: `AttentionWeights`; empty without a window.
        recorders: One `RecorderWeights`; empty without a window.
        outputs: Linear layers without bias, to the draft vocabulary. If the target's output layer
            is shared, to hidden_size, or empty if the widths are equal and `project_output` is
            false.
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        own = 1 if config.tie_positions else config.positions
        projections = min(2, config.positions) if config.tie_positions else config.positions
        takes_tokens = config.kind != "medusa"
        self.projections = nn.ModuleList(
            ProjectionWeights(config, position=position)
            for position in range(projections if takes_tokens else 0)
        )
        self.embeddings = nn.ModuleList(
            nn.Linear(config.hidden_size, config.embedding_size, bias=False)
            if config.share_embedding
            else nn.Embedding(config.vocab_size, config.embedding_size)
            for _ in range(own if takes_tokens else 0)
        )
        self.cells = nn.ModuleList(_CELLS[config.kind](config) for _ in range(own))
        self.attentions = nn.ModuleList(
            AttentionWeights(config) for _ in range(own if config.window else 0)
        )
        self.recorders = nn.ModuleList(
            RecorderWeights(config) for _ in range(1 if config.window else 0)
        )
        out = config.hidden_size if config.share_output else config.output_size
        self.outputs = nn.ModuleList(
            nn.Linear(config.inner_size, out, bias=False)
            for _ in range(own if config.has_output else 0)
        )

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of all parameters."""
        return next(self.parameters()).dtype

    @property
    def device(self) -> torch.device:
        """The device of all parameters."""
        return next(self.parameters()).device

    def initialise(self, config: HeadConfig, *, seed: int, embedding: Tensor | None) -> None:
        """Draw all weights; norms start as plain RMS norms, Medusa's layers as zeros.

        Args:
            config: The configuration that these weights were built from.
            seed: Seed; the same seed gives the same weights on every device.
            embedding: The target's input embeddings, if shared: the projection is scaled so that
                its results are as large as own embeddings would be.

        Source: ArcticTraining's recipe: normal, deviation 1 / sqrt(the smaller dimension). Medusa's
        layers arXiv:2401.10774: a head begins as the identity.
        """
        draws = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 1:
                continue
            # Rows of a gate are drawn as if they were a separate layer.
            deviation = 1 / math.sqrt(min(*parameter.shape, config.sum_size))
            if config.share_embedding and embedding is not None and name.startswith("embeddings."):
                deviation = 1 / math.sqrt(config.sum_size) / _mean_length(embedding)
            if name.endswith(".leave.weight"):
                deviation *= _LEAVE_RATIO
            if config.kind == "medusa" and name.startswith("cells."):
                deviation = 0.0
            drawn = torch.randn(parameter.shape, generator=draws) * deviation
            parameter.data.copy_(drawn)


def _mean_length(table: Tensor) -> float:
    squares = table.float().square().sum(-1)
    return max(float(squares.mean().sqrt()), EPSILON)
