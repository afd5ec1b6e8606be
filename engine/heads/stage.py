"""One draft position of a head: computes the next state from a state and a token."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from engine.heads.attention import Attention, Context, attend
from engine.heads.cells import Cell, Layer, Linear, join, run_layer
from engine.heads.config import HeadConfig
from engine.heads.extension import Extension
from engine.heads.weights import HeadWeights, ReadLinear, at

Embed = Callable[[Tensor], Tensor]


class Stage(NamedTuple):
    """The parts of a position, for training or folded for drafting.

    Attributes:
        project: Projects the previous state to the sum.
        layers: Additional layers after the projection.
        embed: Maps token ids, (...,), to embeddings, (..., embedding_size).
        scale: Factor of embeddings.
        attention: Attention from the sum to earlier text positions; None without a window.
        cell: The recurrence.
        score: Maps the state to logits.
        extension: Adds the logits of tokens in the window; None without `window_tokens`.
    """

    project: Linear
    layers: tuple[Layer, ...]
    embed: Embed
    scale: float
    attention: Attention | None
    cell: Cell
    score: Linear
    extension: Extension | None = None


def add_up(stage: Stage, state: Tensor, tokens: Tensor) -> Tensor:
    """Return the sum of projected state and embedded token, (..., sum size).

    Args:
        stage: Stage of the position.
        state: State of the previous position; at the first, the target's, scaled if configured.
        tokens: The last token of each row, as `stage.embed` takes it.
    """
    projected = stage.project(state)
    for layer in stage.layers:
        projected = run_layer(layer, projected)
    return join(projected, stage.embed(tokens), stage.scale)


def advance(
    stage: Stage, state: Tensor, memory: Tensor | None, tokens: Tensor, context: Context | None
) -> tuple[Tensor, Tensor | None]:
    """Return the next state, (..., inner), and the memory of an LSTM.

    Args:
        stage: Stage of the position.
        state: As for `add_up`.
        memory: Memory of the previous position; None at the first.
        tokens: As for `add_up`.
        context: What a head with a window attends to; None for nothing.
    """
    total = add_up(stage, state, tokens)
    if stage.attention is not None and context is not None:
        total = attend(stage.attention, total, context)
    return stage.cell.step(total, memory)


def build_stage(
    config: HeadConfig,
    weights: HeadWeights,
    position: int,
    *,
    linear: ReadLinear,
    embed: Embed,
    score: Linear,
    extension: Extension | None = None,
) -> Stage:
    """Build the stage of a position; `linear` chooses the implementation of its linear layers."""
    projection = at(weights.projections, position)
    return Stage(
        project=linear(projection.linear),
        layers=tuple(layer.read(linear) for layer in projection.layers),
        embed=embed,
        scale=config.embedding_scale,
        attention=at(weights.attentions, position).read(linear) if config.window else None,
        cell=at(weights.cells, position).read(linear),
        score=score,
        extension=extension,
    )
