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


class Addends(NamedTuple):
    """What is added up for a cell: the projected state and the embedded token.

    Attributes:
        project: Projects the previous state to the sum.
        layers: Additional layers after the projection.
        embed: Maps token ids, (...,), to embeddings, (..., embedding_size).
        scale: Factor of embeddings.
    """

    project: Linear
    layers: tuple[Layer, ...]
    embed: Embed
    scale: float


class Stage(NamedTuple):
    """The parts of a position, for training or folded for drafting.

    Attributes:
        addends: What the cell gets the sum of; None for Medusa, whose cell gets the state itself.
        attention: Attention from the sum to earlier text positions; None without a window.
        cell: The recurrence.
        score: Maps the state to logits.
        extension: Adds the logits of tokens in the window; None without `window_tokens`.
    """

    addends: Addends | None
    attention: Attention | None
    cell: Cell
    score: Linear
    extension: Extension | None = None


def add_up(stage: Stage, state: Tensor, tokens: Tensor) -> Tensor:
    """Return the sum of projected state and embedded token, (..., sum size), or the state itself.

    Args:
        stage: Stage of the position.
        state: State of the previous position; at the first, the target's, scaled if configured.
        tokens: The last token of each row, as `Addends.embed` takes it.
    """
    if stage.addends is None:
        return state
    project, layers, embed, scale = stage.addends
    projected = project(state)
    for layer in layers:
        projected = run_layer(layer, projected)
    return join(projected, embed(tokens), scale)


def advance(
    stage: Stage, state: Tensor, memory: Tensor | None, tokens: Tensor, context: Context | None
) -> tuple[Tensor, Tensor | None]:
    """Return the next state, (..., inner), and the memory of an LSTM or the target's state.

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
    embed: Embed | None,
    score: Linear,
    extension: Extension | None = None,
) -> Stage:
    """Build the stage of a position.

    Args:
        config: The head's configuration.
        weights: Its parameters.
        position: The position.
        linear: Chooses the implementation of linear layers.
        embed: See `Addends`; None for Medusa.
        score: See `Stage`.
        extension: See `Stage`.
    """
    addends = None
    if embed is not None:
        projection = at(weights.projections, position)
        layers = tuple(layer.read(linear) for layer in projection.layers)
        addends = Addends(linear(projection.linear), layers, embed, config.embedding_scale)
    return Stage(
        addends=addends,
        attention=at(weights.attentions, position).read(linear) if config.window else None,
        cell=at(weights.cells, position).read(linear),
        score=score,
        extension=extension,
    )
