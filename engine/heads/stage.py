"""One position of a head: how it comes from a state and a token to the next state."""

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
    """What a position is made of, for training or folded for drafting.

    Attributes:
        project: From the state before to the sum.
        layers: Further layers behind it.
        embed: From token ids, (...,), to embeddings, (..., embedding_size).
        scale: What embeddings are multiplied with.
        attention: To earlier rows, from the sum; None where the head has none.
        cell: The recurrence.
        score: From the state to logits.
        extension: To more logits, of a head that drafts what it looks at; None elsewhere.
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
        stage: Of the position.
        state: Of the position before; at the first, the target's, scaled if the head wants that.
        tokens: The last token of each row, as `stage.embed` takes it.
    """
    projected = stage.project(state)
    for layer in stage.layers:
        projected = run_layer(layer, projected)
    return join(projected, stage.embed(tokens), stage.scale)


def advance(
    stage: Stage, state: Tensor, memory: Tensor | None, tokens: Tensor, context: Context | None
) -> tuple[Tensor, Tensor | None]:
    """Return the next state, (..., inner), and what an LSTM remembers.

    Args:
        stage: Of the position.
        state: As for `add_up`.
        memory: Of the position before; None at the first.
        tokens: As for `add_up`.
        context: What a head with attention may look at; None for nothing.
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
    """Return the stage of a position; `linear` says what to take for its linear layers."""
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
